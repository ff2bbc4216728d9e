/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Arguments of a function of a user's program, at a probe in it. */
#ifndef USER_ARGUMENTS_BPF_H
#define USER_ARGUMENTS_BPF_H

#include "tasks.bpf.h"
#include <bpf/usdt.bpf.h>

/* Of a function of a user's program; <bpf/bpf_tracing.h> has it from libbpf 1.2 on */
#if defined(__TARGET_ARCH_arm64)
#define SIXTH_ARGUMENT(ctx) (((struct user_pt_regs *)(ctx))->regs[5])
#else
#define SIXTH_ARGUMENT(ctx) ((ctx)->r9)
#endif

/* From where a function of a user's program is called that has just been entered, counted from
 * there: in every process that runs the program the same. */
static __always_inline __u64 call_site(struct pt_regs *ctx)
{
	__u64 address = 0;

#if defined(__TARGET_ARCH_arm64)
	address = ((struct user_pt_regs *)ctx)->regs[30];
#else
	bpf_probe_read_user(&address, sizeof(address), (void *)PT_REGS_SP(ctx));
#endif
	return address - PT_REGS_IP(ctx);
}

/* A register at its place in ctx. Where that is not known when this is compiled, a call reads it:
 * the verifier allows no load then. So those that arguments are most often in are told one by one,
 * each loaded in assembler, as a compiler would make one load of them. */
#define LOAD(name)                                                                                 \
	case __builtin_offsetof(struct pt_regs, name):                                             \
		asm volatile("%0 = *(u64 *)(%1 + %2)"                                              \
			     : "=r"(value)                                                         \
			     : "r"(ctx), "i"(__builtin_offsetof(struct pt_regs, name)));           \
		break

static __always_inline __u64 register_at(struct pt_regs *ctx, __u32 place)
{
	__u64 value = 0;

	switch (place) {
#if defined(__TARGET_ARCH_x86)
		LOAD(rdi);
		LOAD(rsi);
		LOAD(rbx);
		LOAD(rbp);
		LOAD(r12);
		LOAD(r13);
		LOAD(r14);
		LOAD(r15);
#endif
	default:
		bpf_probe_read_kernel(&value, sizeof(value), (void *)ctx + place);
	}
	return value;
}
#undef LOAD

/* Of an argument that lies where a cookie says. */
static __always_inline __u64 value_at(struct pt_regs *ctx, __u64 cookie)
{
	__u64 value = register_at(ctx, cookie & COOKIE_REGISTER);

	if (cookie & COOKIE_IN_MEMORY)
		bpf_probe_read_user(&value, sizeof(value), (void *)value + ((__s64)cookie >> 32));
	return value;
}

/* The first argument of a USDT probe, a pointer. Where it lies, in a register or in memory, the
 * cookie of the place tells; before kernels had these (5.15), what libbpf found there. */
static __always_inline const char *usdt_pointer(struct pt_regs *ctx)
{
	long pointer = 0;

	if (!options.cookies) {
		bpf_usdt_arg(ctx, 0, &pointer);
		return (const char *)pointer;
	}
	return (const char *)value_at(ctx, bpf_get_attach_cookie(ctx));
}

#endif
