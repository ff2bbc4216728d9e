/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* On what a read is booked that others perform. */
#ifndef CHARGED_QUERY_BPF_H
#define CHARGED_QUERY_BPF_H

#include "light.bpf.h"
#include "query_id.bpf.h"
#include "statements.bpf.h"
#include "tasks.bpf.h"

/* What a read that others perform is booked on, as the backend's query stands now. Its number
 * is of use only while it is open, and only where its record tells which slots are its. */
static __always_inline __u64 charged_query(struct pgt_task *task, __u64 now)
{
	if (options.light)
		return statement_seen(task, now, false);
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
