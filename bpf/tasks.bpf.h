/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Tasks, which are what is known of traced threads, and what all programs share. */
#ifndef TASKS_BPF_H
#define TASKS_BPF_H

#include "kernel.bpf.h"
#include "pgtrace.h"

/* Set before the programs are loaded, so that the verifier drops what is not asked for. */
const volatile struct pgt_options options SEC(".rodata.options");

struct pgt_live live SEC(".data.live");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pgt_task);
} pgt_tasks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);   /* thread id */
	__type(value, __u32); /* index in pgt_tasks */
} pgt_indexes SEC(".maps");

/* What was found there last: the thread's id, and the index below it. It is asked at each switch,
 * of a hash table three lines of memory, and of this one. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PLACES);
	__type(key, __u32);
	__type(value, __u64);
} pgt_places SEC(".maps");

/* Tasks that nobody has, prepared by user space. A queue needs no atomic counter whose value
 * is used: those came with 5.12 (5ca419f2864a, "bpf: Add BPF_FETCH field / create
 * atomic_fetch_add instruction"). */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1);
	__type(value, __u32);
} pgt_free_tasks SEC(".maps");

/* Where those are who may have parallel workers. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct pgt_leader_key);
	__type(value, __u32); /* index in pgt_tasks */
} pgt_leaders SEC(".maps");

/* What was stored before is seen before what is stored afterwards, by whoever looks with a barrier
 * of its own. x86 keeps stores in order; elsewhere an atomic operation that returns a value does,
 * which 5.12 has, and arm64 has no fentry before 6.0. */
static __always_inline void store_barrier(void)
{
#if defined(__TARGET_ARCH_x86)
	barrier();
#else
	__u32 was = __sync_fetch_and_add(&live.orphans, 0);

	asm volatile("" : : "r"(was) : "memory");
#endif
}

/* The index of a thread that is known; false if it is not, as one of those that have nothing to do,
 * whose id is 0 as that of a place where nobody was found yet. */
static __always_inline bool find_index(__u32 tid, __u32 *index)
{
	__u32 place = tid & (PLACES - 1), *found;
	__u64 *last = bpf_map_lookup_elem(&pgt_places, &place);

	if (!tid)
		return false;
	if (last && *last >> 32 == tid) {
		*index = *last;
		return true;
	}
	found = bpf_map_lookup_elem(&pgt_indexes, &tid);
	if (!found)
		return false;
	*index = *found;
	if (last)
		*last = (__u64)tid << 32 | *index;
	return true;
}

/* Of one that ends: its id may be another's. */
static __always_inline void forget_index(__u32 tid)
{
	__u32 place = tid & (PLACES - 1);
	__u64 *last;

	bpf_map_delete_elem(&pgt_indexes, &tid);
	last = bpf_map_lookup_elem(&pgt_places, &place);
	if (last && *last >> 32 == tid)
		*last = 0;
}

static __always_inline struct pgt_task *task_at(__u32 index)
{
	return bpf_map_lookup_elem(&pgt_tasks, &index);
}

/* The same number, of which the verifier knows nothing: it would follow what comes after a loop,
 * or after a choice of some numbers, once for each that may come out. */
static __always_inline __u32 unknown(struct pgt_task *task, __u32 number)
{
	*(volatile __u32 *)&task->chosen = number;
	return *(volatile __u32 *)&task->chosen;
}

/* Programs at probes may be preempted (PREEMPT, or PREEMPT_LAZY from 6.13 on), and that at the
 * switch of tasks runs then: in between it leaves alone what others change, too. Looking up what a
 * task runs needs none of this: its memory stays as it is meanwhile, and both find the same. */
static __always_inline void begin_change(struct pgt_task *task)
{
	task->times.busy++;
	barrier();
}

static __always_inline void end_change(struct pgt_task *task)
{
	barrier();
	task->times.busy--;
}

static __always_inline bool is_postmaster(__u32 tgid)
{
	__u32 i;

	for (i = 0; i < SERVERS && live.postmasters[i]; i++)
		if (live.postmasters[i] == tgid)
			return true;
	return false;
}

/* Where in `live` the server of a postmaster is; SERVERS: it is none that is traced. Not static: of
 * what it returns the verifier knows nothing, and follows what comes next once. */
__noinline __u32 place_of(__u32 postmaster)
{
	__u32 i;

#pragma clang loop unroll(disable)
	for (i = 0; i < SERVERS && live.postmasters[i]; i++)
		if (live.postmasters[i] == postmaster)
			return i;
	return SERVERS;
}

/* The same of a task's own, which is most often where it was before. */
static __always_inline __u32 server_of(struct pgt_task *task)
{
	__u32 place = task->server;

	if (place >= SERVERS || live.postmasters[place & (SERVERS - 1)] != task->postmaster) {
		place = place_of(task->postmaster);
		task->server = place;
	}
	return place;
}

/* log2 of the size of the blocks that the task's server leaves to I/O workers; 0: it has none.
 * Where io_uring performs, the order of reads is that of its submissions, and where nobody does,
 * that of the system calls. */
static __always_inline __u32 asked_shift(struct pgt_task *task)
{
	__u32 place = server_of(task);

	return place < SERVERS ? live.io_workers[place & (SERVERS - 1)] : 0;
}

#endif
