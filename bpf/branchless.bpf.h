/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Arithmetic in the place of branches. */
#ifndef BRANCHLESS_BPF_H
#define BRANCHLESS_BPF_H

#include "kernel_types.bpf.h"

/* Comparisons of numbers below 2^63 whose result, 1 or 0, the compiler does not turn into a
 * branch: the verifier would follow both sides of it for each character of a text. */
static __always_inline __u64 less(__u64 a, __u64 b)
{
	__u64 result = (a - b) >> 63;

	asm volatile("" : "+r"(result));
	return result;
}

static __always_inline __u64 equal(__u64 a, __u64 b)
{
	return less(a ^ b, 1);
}

static __always_inline __u64 within(__u64 a, __u64 low, __u64 high)
{
	return less(a, high + 1) & (less(a, low) ^ 1);
}

#endif
