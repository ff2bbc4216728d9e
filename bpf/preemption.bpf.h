/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Keeping the CPU while a program runs. */
#ifndef PREEMPTION_BPF_H
#define PREEMPTION_BPF_H

#define KEEP_CPU    0x70677401
#define RELEASE_CPU 0x70677402

/* Helpers that there are not. Before the programs are loaded, these calls become those of
 * bpf_preempt_disable() and bpf_preempt_enable(), or nothing
 * (collector/pgtrace/libbpf/keeping_cpu.py): an external function would have libbpf ask for the
 * kernel's BTF, which not every kernel has. */
static void (*const keep_cpu)(void) = (void *)KEEP_CPU;
static void (*const release_cpu)(void) = (void *)RELEASE_CPU;

/* Runs all that a program for uprobes does, with no other task in between. A preemptible kernel may
 * give the CPU to one that comes to the same probe, and from 6.13 on the variables of both are in
 * one memory (a76ab5731e32, "bpf: Find eligible subprogs for private stack support"). No other
 * programs run twice on a CPU. What `what` is made of is fetched in it, as BPF_KPROBE() would fetch
 * arguments before, and might have to put them there. */
#define UNPREEMPTED(what)                                                                          \
	({                                                                                         \
		int returned;                                                                      \
                                                                                                   \
		keep_cpu();                                                                        \
		returned = (what);                                                                 \
		release_cpu();                                                                     \
		returned;                                                                          \
	})

#endif
