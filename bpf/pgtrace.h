/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Types that both halves share. collector/pgtrace/engines/layout.py mirrors them, and
 * tests/unit/test_layout.py compiles this file to hold the two together. */
#ifndef PGTRACE_H
#define PGTRACE_H

#define SUBS	   16	   /* buckets per power of two */
#define SUB_BITS   4	   /* log2(SUBS) */
#define MAX_BITS   40	   /* values from 2^40 ns (18 minutes) on share the last bucket */
#define CHUNKS	   38	   /* one for the values below 16, one per power of two, one beyond */
#define FILES	   16	   /* files whose last position a task remembers */
#define TEXT	   1024	   /* bytes of query text kept, the closing NUL included */
#define MAX_IOVECS 32	   /* PostgreSQL's PG_IOV_MAX; of longer vectors the length is not known */
#define NOWHERE	   (~0ull) /* no position: no read of this file was seen before */

enum source { PAGE_CACHE, READAHEAD_ISSUED, DEVICE, WAIT, SOURCE_UNKNOWN, SOURCES };
enum pattern { SEQUENTIAL, NEAR, RANDOM, FIRST, PATTERN_UNKNOWN, PATTERNS };
enum size { BLOCKS_1, BLOCKS_2_4, BLOCKS_5_15, BLOCKS_16, SIZES };
enum scope { OUTSIDE, IN_QUERY, SCOPES };
enum protocol { PROTOCOL_UNKNOWN, SIMPLE, EXTENDED };

/* A slot's key within its task:
 * (((scope * 2 + direct) * SIZES + size) * PATTERNS + pattern) * SOURCES + source */
#define KEYS (SCOPES * 2 * SIZES * PATTERNS * SOURCES)

struct options {
	__u64 near_window; /* bytes that a scan may skip and still be one: the read-ahead */
	__u32 only_tid;	   /* the one thread to trace, or 0: those in pgt_indexes */
	__u32 max_slots;
	__u32 max_chunks;
	__u32 block_shift;    /* log2 of the server's block size */
	__u32 emit_durations; /* for tests: send each duration too */
	__u32 unused;
};

struct taken {
	__u32 slots;
	__u32 chunks;
};

/* The histogram of reads that agree in everything that is told apart. Only the task that
 * owns a slot writes to it, so that no counter needs an atomic operation. */
struct slot {
	__u32 task; /* its index in the map of tasks */
	__u32 key;
	__u64 query; /* number of the query within the task; 0: outside queries */
	__u32 next;  /* of the same query: index + 1, or 0 */
	__u32 unused;
	__u64 count;
	__u64 bytes;
	__u64 device_bytes;
	__u64 total_ns;
	__u64 min_ns;
	__u64 max_ns;
	__u32 chunk[CHUNKS]; /* index + 1, or 0 where no value fell */
};

struct chunk {
	__u64 count[SUBS];
};

/* Reads that are in no histogram because they failed or came short. */
struct apart {
	__u64 count;
	__u64 bytes;
	__u64 device_bytes;
	__u64 total_ns;
};

/* One query as the client sees it; sent as it is, with as much of the text as there is. */
struct query {
	__u64 number; /* counted within the task, from 1 */
	__u64 start_ns;
	__u64 end_ns; /* CLOCK_MONOTONIC, as start_ns */
	__u32 tid;
	__u32 first_slot; /* index + 1; 0: it made no read */
	__u8 protocol;
	__u8 open;
	__u8 executed;	   /* an outermost portal ran */
	__u8 done;	   /* query__done: only a simple query that succeeded fires it */
	__u8 failed;	   /* the transaction was aborted while it ran */
	__u8 begun_before; /* it was open when tracing began */
	__u8 cut;	   /* its text was longer than TEXT */
	__u8 unused;
	__u32 depth;	   /* of nested portals */
	__u32 text_length; /* without the closing NUL */
	char text[TEXT];
};

struct file_state {
	__u64 file;   /* struct file *, only compared */
	__u64 inode;  /* struct inode *, only compared */
	__u64 number; /* i_ino: the same inode, or another at its address? */
	__u64 next;   /* where the last read of it ended, or NOWHERE */
	__u32 flags;
	__u32 unused;
};

/* What is known of one traced thread. Only that thread writes to it. */
struct task {
	__u64 start_ns; /* of the read in flight; 0: none */
	__u64 read_bytes;
	__u64 switches;
	__u64 asked;
	__u64 position;
	__u32 file; /* index in files[] */
	__u32 tid;
	__u64 lost_reads;
	__u64 lost_queries;
	struct apart failed;
	struct apart cut_short;
	__u32 files_used; /* ever: more than FILES means that some were forgotten */
	__u32 unused;
	__u64 ignored_file; /* what was read last of what does not count: a signalfd, /proc */
	__u64 ignored_inode;
	struct file_state files[FILES];
	__u32 slot[KEYS]; /* index + 1, or 0; stale once the slot says another owner */
	struct query query;
	char text[TEXT]; /* scratch: the text that a probe brought */
};

#endif
