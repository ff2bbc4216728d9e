/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is asked of the kernel of the current task, and what differs between kernels, each with its
 * reason. */
#ifndef KERNEL_BPF_H
#define KERNEL_BPF_H

#include "kernel_types.bpf.h"

/* The current task's counters. Since 5.11 (3ca1032ab7ab, "bpf: Implement
 * get_current_task_btf and RET_PTR_TO_BTF_ID") they can be loaded directly; before, each
 * costs a call. */
struct counters {
	__u64 read_bytes;
	__u64 switches;
};

static __always_inline bool has_task_btf(void)
{
	return bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_get_current_task_btf);
}

static __always_inline bool has_io_accounting(void)
{
	struct task_struct *task = NULL;

	return bpf_core_field_exists(task->ioac.read_bytes);
}

static __always_inline struct counters current_counters(void)
{
	struct counters counters = {};
	struct task_struct *task;

	if (has_task_btf()) {
		task = (void *)bpf_get_current_task_btf();
		counters.switches = task->nvcsw;
		if (has_io_accounting())
			counters.read_bytes = task->ioac.read_bytes;
	} else {
		task = (void *)bpf_get_current_task();
		counters.switches = BPF_CORE_READ(task, nvcsw);
		if (has_io_accounting())
			counters.read_bytes = BPF_CORE_READ(task, ioac.read_bytes);
	}
	return counters;
}

/* The current task's parent, to be compared. */
static __always_inline __u64 parent(void)
{
	struct task_struct *task;

	if (has_task_btf()) {
		task = (void *)bpf_get_current_task_btf();
		return (__u64)task->real_parent;
	}
	task = (void *)bpf_get_current_task();
	return (__u64)BPF_CORE_READ(task, real_parent);
}

/* The thread group of the current task's parent: of a backend, its postmaster. */
static __always_inline __u32 parent_tgid(void)
{
	struct task_struct *task;

	if (has_task_btf()) {
		task = (void *)bpf_get_current_task_btf();
		return task->real_parent->tgid;
	}
	task = (void *)bpf_get_current_task();
	return BPF_CORE_READ(task, real_parent, tgid);
}

/* By the clock of bpf_ktime_get_ns(). */
static __always_inline __u64 born_ns(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	return BPF_CORE_READ(task, group_leader, start_time);
}

#define PF_EXITING 0x00000004 /* include/linux/sched.h */

/* Whether the current task ends. From 6.16 on it is told of while it still has its memory. */
static __always_inline bool is_exiting(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	return BPF_CORE_READ(task, flags) & PF_EXITING;
}

/* include/linux/sched.h: who holds a task up, a signal, a debugger, or its control group. The last
 * since 6.1 (f5d39b020809, "freezer,sched: Rewrite core freezer logic"). */
#define TASK_STOPPED 0x0004
#define TASK_TRACED  0x0008
#define TASK_FROZEN  0x8000
#define TASK_HELD    (TASK_STOPPED | TASK_TRACED | TASK_FROZEN)
/* include/linux/sched/jobctl.h, since 5.2: a control group of v2 freezes so who then only sleeps */
#define JOBCTL_TRAP_FREEZE (1UL << 23)

/* Why the current task leaves its CPU: 0 if it could run on. */
static __always_inline __u32 task_state(void)
{
	struct task_struct___before_5_14 *before;
	struct task_struct *task = NULL;
	unsigned long held;
	__u32 state;

	if (has_task_btf()) {
		task = (void *)bpf_get_current_task_btf();
		before = (void *)task;
		held = task->jobctl & JOBCTL_TRAP_FREEZE;
		state = bpf_core_field_exists(task->__state) ? task->__state : before->state;
	} else {
		task = (void *)bpf_get_current_task();
		before = (void *)task;
		held = BPF_CORE_READ(task, jobctl) & JOBCTL_TRAP_FREEZE;
		if (bpf_core_field_exists(task->__state))
			state = BPF_CORE_READ(task, __state);
		else
			state = BPF_CORE_READ(before, state);
	}
	return state && held ? TASK_FROZEN : state;
}

/* How long it waited for a CPU so far, but for the wait that goes on. */
static __always_inline __u64 run_delay(void)
{
	struct task_struct *task;

	if (has_task_btf()) {
		task = (void *)bpf_get_current_task_btf();
		return task->sched_info.run_delay;
	}
	task = (void *)bpf_get_current_task();
	return BPF_CORE_READ(task, sched_info.run_delay);
}

/* When it last came on a CPU, by the clock of that CPU's run queue. */
static __always_inline __u64 last_arrival(void)
{
	struct task_struct *task;

	if (has_task_btf()) {
		task = (void *)bpf_get_current_task_btf();
		return task->sched_info.last_arrival;
	}
	task = (void *)bpf_get_current_task();
	return BPF_CORE_READ(task, sched_info.last_arrival);
}

/* That clock, which is right at a switch; 0 where it is not to be had. */
static __always_inline __u64 queue_clock(void)
{
	struct task_struct *task = NULL;
	struct rq *queue = NULL;

	if (!bpf_core_field_exists(task->se.cfs_rq) || !bpf_core_field_exists(queue->clock))
		return 0;
	if (has_task_btf()) {
		task = (void *)bpf_get_current_task_btf();
		return task->se.cfs_rq->rq->clock;
	}
	task = (void *)bpf_get_current_task();
	queue = BPF_CORE_READ(task, se.cfs_rq, rq);
	return BPF_CORE_READ(queue, clock);
}

/* What interrupts and the hypervisor took of this CPU so far, as far as the kernel counts them, and
 * up to its last tick. */
static __always_inline __u64 stolen_time(void)
{
	struct task_struct *task = NULL;
	struct rq *queue = NULL;

	if (!bpf_core_field_exists(task->se.cfs_rq) || !bpf_core_field_exists(queue->clock_task))
		return 0;
	if (has_task_btf()) {
		task = (void *)bpf_get_current_task_btf();
		return task->se.cfs_rq->rq->clock - task->se.cfs_rq->rq->clock_task;
	}
	task = (void *)bpf_get_current_task();
	queue = BPF_CORE_READ(task, se.cfs_rq, rq);
	return BPF_CORE_READ(queue, clock) - BPF_CORE_READ(queue, clock_task);
}

/* At a switch of tasks, who comes on the CPU that the current one leaves, which the kernel has
 * noted by then: to be loaded directly, where a program has no more than an address, `next`. NULL
 * where that is not to be had. */
static __always_inline struct task_struct *incoming(__u64 next)
{
	struct task_struct *task = NULL;
	struct rq *queue = NULL;
	__u64 address;

	if (!has_task_btf() || !bpf_core_field_exists(task->se.cfs_rq) ||
	    !bpf_core_field_exists(queue->curr))
		return NULL;
	task = (void *)bpf_get_current_task_btf();
	task = task->se.cfs_rq->rq->curr;
	/* The compiler would load by either of two that are equal, the verifier allows but one */
	address = (__u64)task;
	barrier_var(address);
	return address == next ? task : NULL;
}

/* The current thread's number in its own PID namespace, the innermost. */
static __always_inline __u32 inner_tid(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct pid *pid = BPF_CORE_READ(task, thread_pid);
	struct upid number = {};
	__u64 offset = __builtin_preserve_field_info(pid->numbers, BPF_FIELD_BYTE_OFFSET);

	offset += BPF_CORE_READ(pid, level) * sizeof(struct upid);
	bpf_probe_read_kernel(&number, sizeof(number), (void *)pid + offset);
	return number.nr;
}

/* Of the current task, which ends. */
static __always_inline __u32 exit_code(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	return BPF_CORE_READ(task, exit_code);
}

/* What `ps` shows: PostgreSQL writes its title over its arguments. */
static __always_inline void read_title(char *title, __u32 size)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	bpf_probe_read_user_str(title, size, (void *)BPF_CORE_READ(task, mm, arg_start));
}

/* A number of which the compiler assumes nothing. It may otherwise make of an index an offset
 * from before the start of a map's value, and 7.2's verifier refuses such an address even if
 * what is added to it leads back ("unbounded memory access"); 6.12's does not. */
static __always_inline __u32 opaque(__u32 number)
{
	asm volatile("" : "+r"(number));
	return number;
}

static __always_inline struct file *current_file(__u32 fd)
{
	struct task_struct *task;
	struct fdtable *table;
	struct file **files, *file = NULL;

	if (has_task_btf()) {
		task = (void *)bpf_get_current_task_btf();
		table = task->files->fdt;
		if (fd >= table->max_fds)
			return NULL;
		files = table->fd;
	} else {
		task = (void *)bpf_get_current_task();
		table = BPF_CORE_READ(task, files, fdt);
		if (fd >= BPF_CORE_READ(table, max_fds))
			return NULL;
		files = BPF_CORE_READ(table, fd);
	}
	bpf_probe_read_kernel(&file, sizeof(file), &files[fd]);
	return file;
}

#endif
