/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Where the time of a task goes: on a CPU, waiting for one, or asleep, and for what. Each piece is
 * counted once it is over and the task is the current one: at the next switch, or where a query
 * begins or ends. Then they add up to the time that passed. */
#ifndef TIMES_BPF_H
#define TIMES_BPF_H

#include "counting.bpf.h"
#include "slots.bpf.h"
#include "tasks.bpf.h"

/* Not static, so that the verifier looks at it once for all callers. */
__noinline int count_time(__u32 task_index, __u64 query, __u32 what, __u32 event, __u64 ns)
{
	struct pgt_task *task;
	struct pgt_slot_key key = {};
	struct pgt_slot *slot;
	__u32 *cached;

	if (!ns)
		return 0;
	task = task_at(task_index);
	what = opaque(what);
	if (!task || what >= TIMES)
		return 0;
	key.owner = key.charged_to = task->serial;
	key.query = query;
	key.key = KEYS + !!query * TIMES + what;
	key.file = event;
	cached = &task->times.slot[(query * TIMES + what + event + (event >> 24)) & (TIMED - 1)];
	slot = *cached ? slot_at(*cached - 1) : NULL;
	if (!slot || !is_of(slot, &key)) {
		*cached = find_slot(task, &key, false);
		if (!*cached)
			*cached = find_slot(task, &key, true);
		slot = *cached ? slot_at(*cached - 1) : NULL;
	}
	if (!slot || !count_duration(slot, ns, true))
		__sync_fetch_and_add(&live.lost_times, 1);
	return 0;
}

static __always_inline __u64 at_most(__u64 value, __u64 most)
{
	return value < most ? value : most;
}

/* What of the time on a CPU that CPU did something else. Who was on it before tracing has no mark
 * to count from. The kernel's two clocks may be read in the midst of their change, and then go
 * back. */
static __always_inline __u64 stolen_of(struct pgt_times *times, __u64 stolen, __u64 ran)
{
	if (!times->stolen || (__s64)(stolen - times->stolen) <= 0)
		return 0;
	return at_most(stolen - times->stolen, ran);
}

/* Finds out when a task came on its CPU whose switch to it was not seen: on 6.18, one from an idle
 * CPU has passed by in some hundred to thousand sleeps; why is not known. The kernel keeps its own
 * note, by another clock, which may be off by what the hypervisor took in between: then it is
 * between leaving and now all the same. Without that clock, it slept until now. */
static __always_inline void mend_arrival(struct pgt_times *times, __u64 now)
{
	__u64 arrived = now;

	if (!times->out_ns || times->out_ns < times->in_ns)
		return;
	if (times->clock_ns)
		arrived = last_arrival() + times->clock_ns;
	if (arrived < times->out_ns)
		arrived = times->out_ns;
	times->in_ns = at_most(arrived, now);
	times->stolen = stolen_time();
}

/* Counts what is over of the current task's time, for its query `query`. Of a gap between two
 * stints on a CPU the kernel tells how much was spent waiting for one once it is over: the rest
 * was sleep. A wait event that a task left with is true until it runs again: only the process
 * itself changes it. Without the probe of the switch all would be taken for time on a CPU. Not
 * static, as count_time(). */
__noinline int settle_times(__u32 index, __u64 now, __u64 query)
{
	__u64 gap, queued, preempted, ran, stolen;
	struct pgt_task *task = task_at(index);
	struct pgt_times *times;

	if (!task || live.no_switch)
		return 0;
	times = &task->times;
	begin_change(task);
	if (!times->in_ns || times->in_ns > now) {
		/* One that is new runs since it was first seen */
		times->in_ns = times->in_ns || times->out_ns ? now : at_most(task->began_ns, now);
		times->stolen = stolen_time();
	}
	mend_arrival(times, now);
	preempted = times->preempted_ns;
	times->preempted_ns -= preempted;
	if (times->out_ns && times->out_ns < times->in_ns) {
		gap = times->in_ns - times->out_ns;
		queued = gap;
		if (times->event) {
			queued = run_delay() - times->run_delay;
			queued = at_most(queued - at_most(preempted, queued), gap);
			count_time(index, times->query, SLEEP, times->event, gap - queued);
		}
		count_time(index, times->query, times->in_read ? QUEUE_IN_READ : RUN_QUEUE, 0,
			   queued);
	}
	times->out_ns = 0;
	ran = now - times->in_ns;
	preempted = at_most(preempted, ran);
	count_time(index, query, RUN_QUEUE, 0, preempted);
	stolen = stolen_time();
	ran -= preempted;
	gap = stolen_of(times, stolen, ran);
	count_time(index, query, STOLEN, 0, gap);
	count_time(index, query, ON_CPU, 0, ran - gap);
	times->stolen = stolen;
	times->in_ns = now;
	end_change(task);
	return 0;
}

#endif
