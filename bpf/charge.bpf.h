/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Is this task traced, and where is what is known of it? */
#ifndef CHARGE_BPF_H
#define CHARGE_BPF_H

#include "tasks.bpf.h"

#define STEP 8

/* Where in a title these eight bytes stand first; TITLE: nowhere. In few steps: at each, the
 * verifier looks back at all that went before. */
static __always_inline __u32 first_place(const char *title, __u64 bytes)
{
	__u32 at, i;

#pragma clang loop unroll(disable)
	for (at = 0; at < TITLE - 8; at += STEP) {
		/* Else the compiler counts from -STEP, which 7.2 refuses to add to a pointer */
		at = opaque(at);
#pragma clang loop unroll(full)
		for (i = 0; i < STEP; i++)
			if (*(__u64 *)(title + at + i) == bytes)
				return at + i;
	}
	return TITLE;
}

#define WORKER 0x2072656b726f7720 /* " worker ", as a number */

/* "postgres: parallel worker for PID 1", "postgres: cluster name: io worker 1"; some others
 * too, which user space knows to be of no interest. */
static __always_inline bool is_helper(const char *title)
{
	return first_place(title, WORKER) < TITLE;
}

#define POSTGRES 0x7365726774736f70 /* "postgres", as a number */

/* Whether the title is one of a server's child: until it has set it, it has its parent's. */
static __always_inline bool is_own(const char *title)
{
	return *(__u64 *)title == POSTGRES && title[8] == ':';
}

#define FOR_PID 0x2044495020726f66 /* "for PID ", as a number */
#define DIGITS	10

/* "parallel worker for PID 1": the leader's, in the namespace of both; 0: it has none. */
static __always_inline __u32 leader_pid(struct pgt_task *task)
{
	__u32 i, at, c, number = 0;

	at = unknown(task, first_place(task->title, FOR_PID));
	for (i = 0; i < DIGITS && at < TITLE - 8 - DIGITS; i++) {
		c = (__u8)task->title[at + 8 + i];
		if (c < '0' || c > '9')
			break;
		number = unknown(task, number * 10 + c - '0');
	}
	return unknown(task, number);
}

/* A parallel worker is told for which of its leader's statements it was started, once it has read
 * something: see booking.bpf.h. Others may be leaders. */
static __always_inline void know_leader(struct pgt_task *task)
{
	struct pgt_leader_key key = {.postmaster = task->postmaster};
	struct pgt_task *leader;
	__u32 *found, index = task->index;

	key.inner_tgid = leader_pid(task);
	if (!key.inner_tgid) {
		key.inner_tgid = task->inner_tgid;
		bpf_map_update_elem(&pgt_leaders, &key, &index, BPF_ANY);
		return;
	}
	found = bpf_map_lookup_elem(&pgt_leaders, &key);
	leader = found ? task_at(*found) : NULL;
	if (options.light) {
		if (leader)
			task->query.serial = leader->serial;
		return; /* it is looked up when it reads */
	}
	if (leader && leader->query.open)
		task->started_for = TO_ASK | *found;
}

/* The first event of a new child. Titles of background processes and parallel workers stand
 * from their start, those of clients' backends once they are authenticated. Not static, so that
 * the verifier looks at it once for all callers. */
__noinline int begin_task(__u32 tid)
{
	struct pgt_task *task;
	__u32 index;

	if (bpf_map_pop_elem(&pgt_free_tasks, &index)) {
		__sync_fetch_and_add(&live.lost_tasks, 1);
		index = NOBODY; /* counted once; its place is not looked for again */
		bpf_map_update_elem(&pgt_indexes, &tid, &index, BPF_ANY);
		return -1;
	}
	task = bpf_map_lookup_elem(&pgt_tasks, &index);
	if (!task)
		return -1;
	read_title(task->title, TITLE);
	if (options.helpers_only && !is_helper(task->title)) {
		bpf_map_push_elem(&pgt_free_tasks, &index, 0);
		if (!is_own(task->title))
			return -1; /* as yet: a parallel worker may have read something */
		index = NOBODY;
		bpf_map_update_elem(&pgt_indexes, &tid, &index, BPF_ANY);
		return -1;
	}
	task->tgid = bpf_get_current_pid_tgid() >> 32;
	task->inner_tgid = inner_tid();
	task->postmaster = parent_tgid();
	task->began_ns = bpf_ktime_get_ns();
	task->born_ns = born_ns();
	/* From here on a program at the switch of tasks may find it, */
	if (bpf_map_update_elem(&pgt_indexes, &tid, &index, BPF_ANY)) {
		bpf_map_push_elem(&pgt_free_tasks, &index, 0);
		__sync_fetch_and_add(&live.lost_tasks, 1);
		return -1;
	}
	store_barrier();
	task->tid = tid; /* and user space from here on */
	if (!options.per_query)
		know_leader(task);
	return index;
}

static __always_inline struct pgt_task *task_if(bool begin)
{
	__u32 tid = bpf_get_current_pid_tgid();
	struct pgt_task *task;
	__u32 index = 0;
	bool child;
	int fresh;

	if (options.only_tid && tid == options.only_tid) {
		task = bpf_map_lookup_elem(&pgt_tasks, &index);
		return task && !task->ignored ? task : NULL;
	}
	if (!options.listed && !options.children)
		return NULL;
	child = options.children && is_postmaster(parent_tgid());
	if (!options.listed && !child && !live.orphans)
		return NULL;
	if (!find_index(tid, &index)) {
		if (!begin || !child || !live.begun)
			return NULL;
		fresh = begin_task(tid);
		if (fresh < 0)
			return NULL;
		index = fresh;
	}
	task = bpf_map_lookup_elem(&pgt_tasks, &index);
	return task && !task->ignored ? task : NULL;
}

static __always_inline struct pgt_task *traced_task(void)
{
	return task_if(true);
}

/* The same at the end of what was seen to begin: whoever is met there first did not begin it, and
 * the verifier has no beginning of tasks to look at. */
static __always_inline struct pgt_task *begun_task(void)
{
	return task_if(false);
}

/* Whether the current task is of a server that is not traced; asked before all else. */
static __always_inline bool is_elsewhere(void)
{
	return !options.only_tid && !options.listed && !live.orphans &&
	       !is_postmaster(parent_tgid());
}

/* The same for probes that wait in the processes that matter alone: where that is one thread,
 * the verifier has nothing else to look at. */
static __always_inline struct pgt_task *query_task_if(bool begin)
{
	__u32 tid = bpf_get_current_pid_tgid(), index = 0;
	struct pgt_task *task;

	if (!options.only_tid)
		return task_if(begin);
	if (tid != options.only_tid)
		return NULL;
	task = bpf_map_lookup_elem(&pgt_tasks, &index);
	return task && !task->ignored ? task : NULL;
}

static __always_inline struct pgt_task *query_task(void)
{
	return query_task_if(true);
}

/* The same where a text was told of before. */
static __always_inline struct pgt_task *begun_query_task(void)
{
	return query_task_if(false);
}

#endif
