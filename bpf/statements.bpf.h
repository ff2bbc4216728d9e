/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Statements: the calls of one backend added up, and the reads that they made. */
#ifndef STATEMENTS_BPF_H
#define STATEMENTS_BPF_H

#include "counting.bpf.h"
#include "fold.bpf.h"
#include "hash.bpf.h"
#include "seen_texts.bpf.h"
#include "tasks.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pgt_statement);
} pgt_statements SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, 1);
	__type(value, __u32);
} pgt_free_statements SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct pgt_statement_key);
	__type(value, __u32);
} pgt_statement_indexes SEC(".maps");

/* Of a task's statements the one with a query id, if it was seen before; else 0. A parallel worker
 * does not remember it: it is its leader's, and may be gone with that. */
static __noinline __u64 known_by_id(struct pgt_task *task, __u64 query_id)
{
	struct pgt_statement_key key = {.by_id = 1};
	struct pgt_recent *recent;
	__u32 *found;

	if (!task || !query_id)
		return 0;
	recent = &task->seen.recent[query_id & (RECENT - 1)];
	if (recent->query_id == query_id && recent->application == task->application)
		return recent->statement;
	key.charged_to = task->query.serial;
	key.id = query_id;
	key.application = task->application;
	found = bpf_map_lookup_elem(&pgt_statement_indexes, &key);
	if (!found) {
		key.cut = 1; /* what it is known by says of its text, too, whether that is whole */
		found = bpf_map_lookup_elem(&pgt_statement_indexes, &key);
	}
	if (!found)
		return 0;
	if (key.charged_to == task->serial) {
		recent->query_id = query_id;
		recent->application = task->application;
		recent->statement = STATEMENT | (*found + 1);
	}
	return STATEMENT | (*found + 1);
}

/* The second step of find_statement(). */
__noinline int look_up_statement(__u32 asking_index, __u32 task_index)
{
	struct pgt_task *asking = task_at(asking_index), *task = task_at(task_index);
	struct pgt_statement_key key = {};
	struct pgt_statement *statement;
	__u32 *found, index;
	struct pgt_query *query;

	if (!asking || !task)
		return 0;
	query = &task->query;
	key.charged_to = query->serial;
	key.protocol = query->protocol;
	key.begun_before = query->begun_before;
	key.cut = query->cut;
	key.by_id = query->query_id != 0;
	key.id = query->query_id;
	if (!key.by_id && !query->begun_before)
		key.id = asking->hashing.hash;
	key.application = task->application;
	found = bpf_map_lookup_elem(&pgt_statement_indexes, &key);
	if (found) {
		query->statement = STATEMENT | (*found + 1);
		return 0;
	}
	if (bpf_map_pop_elem(&pgt_free_statements, &index)) {
		query->statement = OTHERS;
		return 0;
	}
	statement = bpf_map_lookup_elem(&pgt_statements, &index);
	if (!statement)
		return 0;
	statement->used = 1;
	statement->key = key;
	statement->query_id = query->query_id;
	statement->text_length = query->text_length;
	bpf_probe_read_kernel(statement->application_name, NAME, query->application_name);
	bpf_probe_read_kernel(statement->text, TEXT, query->text);
	if (bpf_map_update_elem(&pgt_statement_indexes, &key, &index, BPF_NOEXIST)) {
		/* Another was faster */
		statement->key.charged_to = 0;
		bpf_map_push_elem(&pgt_free_statements, &index, 0);
		found = bpf_map_lookup_elem(&pgt_statement_indexes, &key);
		query->statement = found ? STATEMENT | (*found + 1) : OTHERS;
		return 0;
	}
	query->statement = STATEMENT | (index + 1);
	return 0;
}

/* Finds the statement of a task's open query, which may be one that was not called before. Who
 * asks is the task itself, or one of its parallel workers: they may do so at the same time.
 * One step calls not the other: 512 bytes of stack are all that nested functions have. */
static __always_inline void find_statement(__u32 asking_index, __u32 task_index)
{
	hash_query(asking_index, task_index);
	look_up_statement(asking_index, task_index);
}

static __always_inline void count_call(struct pgt_calls *sums, struct pgt_query *query, bool failed)
{
	__u64 ns = query->end_ns - query->start_ns;

	if (!sums->calls || ns < sums->min_ns)
		sums->min_ns = ns;
	if (ns > sums->max_ns)
		sums->max_ns = ns;
	sums->total_ns += ns;
	sums->errors += failed;
	sums->waited_ns += query->waited_ns;
	if (!count_value(sums->chunk, ns, true))
		__sync_fetch_and_add(&live.lost_latencies, 1);
	sums->calls++;
}

/* Adds the query that ended to its statement's calls. What was only prepared is no call, nor is
 * what a backend did before its first query that was idle when tracing began: some signal may have
 * woken it. What they read was outside queries. */
__noinline int count_query(__u32 task_index)
{
	struct pgt_task *task = task_at(task_index);
	struct pgt_statement *statement;
	bool failed, prepared;
	struct pgt_query *query;
	__u32 index;

	if (!task)
		return 0;
	query = &task->query;
	failed = query->failed || (query->protocol == SIMPLE && !query->done);
	prepared = !query->executed && !failed && query->protocol != SIMPLE;
	if (query->begun_before ? task->was_idle : prepared) {
		fold_query(task, 0);
		return 0;
	}
	if (!query->statement)
		find_statement(task->index, task->index);
	index = query->statement - 1;
	statement =
	    query->statement == OTHERS ? NULL : bpf_map_lookup_elem(&pgt_statements, &index);
	if (statement)
		count_call(&statement->sums, query, failed);
	else
		count_call(&task->others, query, failed);
	fold_query(task, query->statement);
	return 0;
}

#endif
