// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A CPU goes from one task to another: the probe of times.bpf.h. It is met by every task of the
 * host, so that those that are not traced leave at the first test. */

#include "booking.bpf.h"
#include "charge.bpf.h"
#include "tasks.bpf.h"
#include "times.bpf.h"

/* `met`: whether it is known what it is, though it may be of no interest. */
static __always_inline struct pgt_task *known_task(__u32 tid, bool *met)
{
	struct pgt_task *task;
	__u32 index = 0;

	*met = false;
	if (!options.only_tid || tid != options.only_tid) {
		if (!options.listed && !options.children)
			return NULL;
		if (!find_index(tid, &index))
			return NULL;
	}
	*met = true;
	task = task_at(index);
	if (!task)
		return NULL;
	if (task->ignored) {
		task->missed = 1;
		return NULL;
	}
	/* What it does after its end is in none of its sums; others are known no more by then */
	return options.only_tid && task->ended_ns ? NULL : task;
}

/* Whether a task may be traced, by its parent. Its tgid would take another look at its memory. Of
 * one server the rest is not asked. */
static __always_inline bool is_candidate(__u64 parent)
{
	__u64 first = live.parents[0];
	__u32 i;

	if (options.listed || live.orphans || first == parent)
		return true;
	if (first && !live.postmasters[1])
		return false;
#pragma clang loop unroll(disable)
	for (i = 0; i < SERVERS && live.postmasters[i]; i++)
		if (!live.parents[i] || live.parents[i] == parent)
			return true;
	return false;
}

/* Of the current task's server, unless its postmaster is not its parent any more. */
static __always_inline void know_parent(__u32 place)
{
	if (place < SERVERS && !live.parents[place & (SERVERS - 1)] &&
	    live.postmasters[place & (SERVERS - 1)] == parent_tgid())
		live.parents[place & (SERVERS - 1)] = parent();
}

/* What the current process, of that server, shows that it waits for, or 0. */
static __always_inline __u32 wait_event(__u32 place)
{
	__u64 pointer = 0, address;
	__u32 event = 0;

	if (place >= SERVERS)
		return 0;
	address = live.memory[place & (SERVERS - 1)].wait;
	if (address)
		bpf_probe_read_user(&pointer, sizeof(pointer), (void *)address);
	if (pointer)
		bpf_probe_read_user(&event, sizeof(event), (void *)pointer);
	return event;
}

/* For which statement the stint was that ends now, while the task is in `query`. In the light tier
 * nothing tells when one ends: if none runs now, it was the last one that was shown, if that began
 * since the stint before or had not ended then. */
static __always_inline __u64 query_of_stint(struct pgt_task *task, __u64 query)
{
	struct pgt_times *times = &task->times;
	__u64 found = query;

	if (!options.light)
		return query;
	if (!query && task->seen.last_start != times->start)
		found = task->seen.last_statement ? task->seen.last_statement
						  : known_by_id(task, task->seen.last_id);
	else if (!query)
		found = times->query;
	times->start = task->seen.last_start;
	return found;
}

/* Of a candidate, by is_candidate(). Not static, so that the verifier looks at it once for all ways
 * that lead here. */
__noinline int leave(__u32 preempted)
{
	__u32 state, event = 0, place;
	struct pgt_task *task;
	__u64 id, now, query, clock;
	bool met;

	id = bpf_get_current_pid_tgid();
	/* A thread of io_uring works for its process beside it */
	if (options.children && (__u32)id != id >> 32)
		return 0;
	task = known_task(id, &met);
	if (!task && met)
		return 0;
	place = place_of(task ? task->postmaster : parent_tgid());
	know_parent(place);
	state = preempted ? 0 : task_state();
	if (!task) {
		/* One that is new is known from its first wait that it shows: it has its title */
		if (!options.children || !state || !wait_event(place) || is_exiting())
			return 0;
		task = traced_task();
		if (!task)
			return 0;
	}
	now = bpf_ktime_get_ns();
	if (task->times.busy) {
		task->times.left_ns = now;
		return 0;
	}
	if (state) {
		/* One that is held up waits for nothing any more, whatever it shows */
		event = state & TASK_HELD ? 0 : wait_event(place);
		if (!event)
			event = KERNEL_SLEEP | (state & (0xff | TASK_FROZEN));
	}
	query = query_of(task, now, true);
	settle_times(task->index, now, query_of_stint(task, query));
	task->times.event = event;
	task->times.query = query;
	task->times.in_read = !!task->start_ns;
	task->times.run_delay = run_delay();
	clock = queue_clock();
	task->times.clock_ns = clock ? now - clock : 0;
	task->times.out_ns = now;
	return 0;
}

/* Nobody saw a task leave its CPU that comes on one now, `next`: what for is not known, nor is then
 * of what went before since it was counted last. */
static __always_inline void mend_leaving(struct pgt_task *task, struct task_struct *next)
{
	struct pgt_times *times = &task->times;

	times->event = KERNEL_SLEEP;
	if (times->out_ns)
		return;
	times->in_read = 0;
	times->out_ns = times->in_ns;
	times->run_delay = BPF_CORE_READ(next, sched_info.run_delay);
	if (!options.light)
		times->query = task->query.open ? task->query.number : 0;
}

static __always_inline int arrive(__u32 tid, struct task_struct *next)
{
	bool met;
	struct pgt_task *task = known_task(tid, &met);
	struct pgt_times *times;
	__u64 now;

	if (!task)
		return 0;
	times = &task->times;
	now = bpf_ktime_get_ns();
	if (times->left_ns) {
		times->preempted_ns += now - times->left_ns;
		times->left_ns = 0;
		times->stolen = stolen_time();
		return 0;
	}
	/* Of a thread that works beside its process nobody looks at that */
	if (times->in_ns > times->out_ns && (!options.children || task->tid == task->tgid))
		mend_leaving(task, next);
	times->in_ns = now;
	times->stolen = stolen_time(); /* who leaves is on the same CPU */
	return 0;
}

#define STRANGERS 4096

/* Tasks that are no candidates, by their addresses: of each that comes on a CPU it takes less to
 * load a word from here than to follow its address. Which servers are traced is in what is
 * compared, by a small number: it changes no more than bits that are 0 in an address. */
__u64 strangers[STRANGERS] SEC(".data.strangers");

static __always_inline __u64 *stranger_at(__u64 task)
{
	return &strangers[task / 64 & (STRANGERS - 1)];
}

static __always_inline bool is_stranger(__u64 task)
{
	return *stranger_at(task) == (task ^ live.followed);
}

static __always_inline bool may_be_traced(__u64 task, __u64 parent)
{
	if (is_candidate(parent))
		return true;
	*stranger_at(task) = task ^ live.followed;
	return false;
}

/* A raw tracepoint costs less than others. It has no more of next than its address, and each look
 * at it by a call takes as long as all else that is done for a task that is not traced. */
SEC("raw_tracepoint")
int pgt_sr_switch(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *next = (void *)ctx->args[2], *known;
	__u64 current, of;

	if (is_candidate(parent())) {
		current = bpf_get_current_task();
		if (is_stranger(current)) /* its memory was another's before */
			*stranger_at(current) = 0;
		leave(!!ctx->args[0]);
	}
	if (is_stranger((__u64)next))
		return 0;
	known = incoming((__u64)next);
	of = (__u64)(known ? known->real_parent : BPF_CORE_READ(next, real_parent));
	if (!may_be_traced((__u64)next, of))
		return 0;
	return arrive(known ? known->pid : BPF_CORE_READ(next, pid), next);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(pgt_sb_switch, bool preempt, struct task_struct *previous, struct task_struct *next)
{
	if (is_candidate(parent()))
		leave(preempt);
	if (!is_candidate((__u64)next->real_parent))
		return 0;
	return arrive(next->pid, next);
}
