/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The full tier: the id that the server computed of a query. A backend shows it in its
 * PgBackendStatus, from when it is known until it begins another. Where in that, the first ids tell
 * that a probe sees; from then on no probe is needed. */
#ifndef QUERY_ID_BPF_H
#define QUERY_ID_BPF_H

#include "samples.bpf.h"
#include "statements.bpf.h"
#include "tasks.bpf.h"

/* Each statement of a simple query has an id of its own: of several none is the query's. A portal
 * that failed is none that ran. */
static __always_inline bool has_several(struct pgt_query *query)
{
	return query->several || (query->protocol == SIMPLE && query->executed + query->failed > 1);
}

static __always_inline void sample_id(struct pgt_task *task, struct pgt_memory *memory)
{
	struct pgt_query *query = &task->query;

	if (memory->sampled <= 0 || !query->query_id || has_several(query))
		return;
	memory->sampled--; /* of two at once perhaps by one alone */
	send_sample(task->postmaster, task->seen.entry, 0, 1, query->query_id, 0);
}

/* A statement that was found by its text, since reads came before the id was known, or by a worker
 * to which its leader's memory was not mapped yet, is that id's. Returns whether it may be. */
static __always_inline bool take_id(__u64 number, __u64 id)
{
	__u32 index = number - 1;
	struct pgt_statement *statement;

	if (number == OTHERS)
		return true;
	statement = number ? bpf_map_lookup_elem(&pgt_statements, &index) : NULL;
	if (!statement)
		return false;
	if (id && !statement->query_id)
		statement->query_id = id;
	return statement->query_id == id;
}

/* Has a task's open query, or one that ends, know its id. Who asks is the task itself, or a process
 * of the same server, to which all entries stand at the same place. Not static, so that the
 * verifier looks at it once. */
__noinline int learn_query_id(__u32 task_index, __u32 itself)
{
	struct pgt_task *task = task_at(task_index);
	struct pgt_memory *memory;
	struct pgt_query *query;
	__u32 place;
	__u64 id = 0;

	/* Without USDT the probe tells it, and more; an idle backend shows the last */
	if (options.no_usdt || !task || task->query.begun_before)
		return 0;
	query = &task->query;
	place = server_of(task);
	if (place >= SERVERS)
		return 0;
	memory = &live.memory[place & (SERVERS - 1)];
	if (itself && !task->seen.entry && memory->entry)
		bpf_probe_read_user(&task->seen.entry, sizeof(task->seen.entry),
				    (void *)memory->entry);
	if (!task->seen.entry)
		return 0;
	if (!memory->query_id) {
		if (itself)
			sample_id(task, memory);
		return 0;
	}
	/* As it is now: of an INSERT with rules another end is to come, see portal_done() */
	if (!has_several(query) &&
	    bpf_probe_read_user(&id, sizeof(id), (void *)task->seen.entry + memory->query_id))
		return 0; /* as of a process that ends, before Linux 6.16: it has no memory then */
	if (id != query->query_id) {
		query->query_id = id;
		if (!take_id(query->statement, id))
			query->statement = 0;
	}
	return 0;
}

#endif
