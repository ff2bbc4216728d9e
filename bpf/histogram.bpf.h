/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A value's place in the log-linear histogram. collector/pgtrace/histogram.py says the same
 * in Python, and a test compares the two value by value. */
#ifndef HISTOGRAM_BPF_H
#define HISTOGRAM_BPF_H

#include "pgtrace.h"

static __always_inline __u32 log2_u64(__u64 value)
{
	__u32 bits = 0;

	if (value >> 32) {
		value >>= 32;
		bits = 32;
	}
	if (value >> 16) {
		value >>= 16;
		bits += 16;
	}
	if (value >> 8) {
		value >>= 8;
		bits += 8;
	}
	if (value >> 4) {
		value >>= 4;
		bits += 4;
	}
	if (value >> 2) {
		value >>= 2;
		bits += 2;
	}
	return bits + (value >> 1);
}

/* Chunk 0 holds the values below 16, one by one; chunk n - 3 those of [2^n, 2^(n+1)) in 16
 * buckets of equal width; the last chunk's first bucket all from 2^MAX_BITS on. */
static __always_inline void locate(__u64 value, __u32 *chunk, __u32 *sub)
{
	__u32 bits;

	if (value < SUBS) {
		*chunk = 0;
		*sub = value;
		return;
	}
	bits = log2_u64(value);
	if (bits >= MAX_BITS) {
		*chunk = CHUNKS - 1;
		*sub = 0;
		return;
	}
	*chunk = bits - SUB_BITS + 1;
	*sub = (value >> (bits - SUB_BITS)) & (SUBS - 1);
}

#endif
