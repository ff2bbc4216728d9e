/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* On which query or statement a read is booked. */
#ifndef BOOKING_BPF_H
#define BOOKING_BPF_H

#include "light.bpf.h"
#include "query_id.bpf.h"
#include "statements.bpf.h"
#include "tasks.bpf.h"

/* A parallel worker lives in one statement of its leader's, which runs until it has ended. Not
 * static, so that the verifier looks at it once. */
__noinline int ask_leader(__u32 task_index)
{
	struct pgt_task *task = task_at(task_index), *leader;
	__u32 index;

	if (!task)
		return 0;
	index = task->started_for;
	task->started_for = 0;
	leader = task_at(index);
	if (!leader || !leader->query.open)
		return 0;
	if (!leader->query.statement) {
		learn_query_id(index, false);
		find_statement(task_index, index);
	}
	task->started_for = leader->query.statement;
	return 0;
}

/* For which statement a parallel worker was started, if it is one and has not asked yet. */
static __always_inline void know_own_start(struct pgt_task *task)
{
	if (!options.per_query && task->started_for & TO_ASK)
		ask_leader(task->index);
}

/* What a task's own read is booked on, or its time where it `switches` or ends. */
static __always_inline __u64 query_of(struct pgt_task *task, __u64 now, bool switches)
{
	if (options.light)
		return statement_seen(task, now, switches);
	if (!switches)
		know_own_start(task);
	return task->query.open ? task->query.number : 0;
}

/* What a read that others perform is booked on, as the backend's query stands now. Its number
 * is of use only while it is open, and only where its record tells which slots are its. */
static __always_inline __u64 charged_query(struct pgt_task *task, __u64 now)
{
	if (options.light)
		return statement_seen(task, now, false);
	know_own_start(task);
	if (!task->query.open)
		return 0;
	if (options.per_query)
		return task->query.number;
	if (!task->query.statement) {
		learn_query_id(task->index, true);
		find_statement(task->index, task->index);
	}
	return task->query.statement;
}

#endif
