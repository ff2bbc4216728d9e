/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How much readv, writev and their like ask for. */
#ifndef VECTORS_BPF_H
#define VECTORS_BPF_H

#include "tasks.bpf.h"

#define IOVECS_AT_ONCE 8

static __always_inline __u64 length_of(const struct iovec *some)
{
	__u64 length = 0;
	__u32 i;

#pragma clang loop unroll(full)
	for (i = 0; i < IOVECS_AT_ONCE; i++)
		length += some[i].length;
	return length;
}

/* The length of a vector, or 0 if it cannot be known. Not static, so that the verifier looks at it
 * once: with it inline, or followed for each way there, three of four of its steps were here. */
__noinline __u64 vector_length(__u64 address, __u64 count)
{
	const struct iovec *vector = (void *)address;
	struct iovec some[IOVECS_AT_ONCE];
	__u64 length = 0, whole, left, i;

	if (count > MAX_IOVECS)
		return 0;
	whole = count / IOVECS_AT_ONCE;
	for (i = 0; i < MAX_IOVECS / IOVECS_AT_ONCE && i < whole; i++) {
		if (bpf_probe_read_user(some, sizeof(some), vector))
			return 0;
		length += length_of(some);
		vector += IOVECS_AT_ONCE;
	}
	left = count % IOVECS_AT_ONCE;
	if (!left)
		return length;
	/* 5.10's verifier does not know by the test alone how many that may be */
	left = (opaque(left - 1) & (IOVECS_AT_ONCE - 1)) + 1;
	__builtin_memset(some, 0, sizeof(some));
	if (bpf_probe_read_user(some, left * sizeof(*some), vector))
		return 0;
	return length + length_of(some);
}

/* The length of one that the kernel holds. Read back its address is a number, as functions want it
 * that are looked at once: fentry's argument is a pointer. */
static __always_inline __u64 length_of_vector(struct pgt_task *task, const struct iovec *vector,
					      __u64 count)
{
	*(volatile __u64 *)&task->asked = (__u64)vector;
	return vector_length(*(volatile __u64 *)&task->asked, count);
}

/* What a system call asks for: a number of bytes if it is that call, else that of its vector. */
static __always_inline __u64 asked_of(struct syscall_enter *ctx, __u32 plain)
{
	if (ctx->number == plain)
		return ctx->args[2];
	return vector_length(ctx->args[1], ctx->args[2]);
}

#endif
