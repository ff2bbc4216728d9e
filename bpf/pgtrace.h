/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Types that both halves share. collector/pgtrace/engines/layout.py mirrors them;
 * tests/unit/test_layout.py holds the two together. */
#ifndef PGTRACE_H
#define PGTRACE_H

#define SUBS 16		 /* buckets per power of two */
#define SUB_BITS 4	 /* log2(SUBS) */
#define MAX_BITS 40	 /* values from 2^40 ns (18 minutes) on share the last bucket */
#define CHUNKS 38	 /* values below 16; 2^4 to 2^39; and those beyond */
#define FILES 8		 /* files whose last position a task remembers */
#define TEXT 1024	 /* bytes of query text kept */
#define MAX_IOVECS 32	 /* PostgreSQL's PG_IOV_MAX; of longer vectors the length is not known */

enum source { PAGE_CACHE, READAHEAD_ISSUED, DEVICE, WAIT, SOURCE_UNKNOWN, SOURCES };
enum pattern { SEQUENTIAL, NEAR, RANDOM, FIRST, PATTERN_UNKNOWN, PATTERNS };
enum size { BLOCKS_1, BLOCKS_2_4, BLOCKS_5_15, BLOCKS_16, SIZES };
enum scope { OUTSIDE, IN_QUERY, SCOPES };

/* A slot's key within its task: ((scope * 2 + direct) * SIZES + size) * PATTERNS ... */
#define KEYS (SCOPES * 2 * SIZES * PATTERNS * SOURCES)

#endif
