/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Statements: the calls of one backend added up, and the reads that they made. */
#ifndef STATEMENTS_BPF_H
#define STATEMENTS_BPF_H

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct statement);
} pgt_statements SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, 1);
	__type(value, __u32);
} pgt_free_statements SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct statement_key);
	__type(value, __u32);
} pgt_statement_indexes SEC(".maps");

/* The second step of find_statement(). */
__noinline int look_up_statement(__u32 asking_index, __u32 task_index)
{
	struct task *asking = task_at(asking_index), *task = task_at(task_index);
	struct statement_key key = {};
	struct statement *statement;
	__u32 *found, index;
	struct query *query;

	if (!asking || !task)
		return 0;
	query = &task->query;
	key.payer = query->serial;
	key.protocol = query->protocol;
	key.begun_before = query->begun_before;
	key.cut = query->cut;
	key.by_id = query->query_id != 0;
	key.id = query->query_id;
	if (!key.by_id && !query->begun_before)
		key.id = asking->hashing.hash;
	key.application = name_hash(query->application_name);
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
		statement->key.payer = 0;
		bpf_map_push_elem(&pgt_free_statements, &index, 0);
		found = bpf_map_lookup_elem(&pgt_statement_indexes, &key);
		query->statement = found ? STATEMENT | (*found + 1) : OTHERS;
		return 0;
	}
	query->statement = STATEMENT | (index + 1);
	return 0;
}

/* Adds one chunk to another, and leaves it empty. */
__noinline int move_chunk(__u32 from, __u32 to)
{
	struct chunk *source = bpf_map_lookup_elem(&pgt_chunks, &from);
	struct chunk *into = bpf_map_lookup_elem(&pgt_chunks, &to);
	__u32 i;

	if (!source || !into)
		return 0;
	for (i = 0; i < SUBS; i++) {
		into->count[i] += source->count[i];
		source->count[i] = 0;
	}
	return 0;
}

static __always_inline void move_sums(struct slot *from, struct slot *into)
{
	/* One that was taken while there was no chunk has counted nothing, and knows no minimum */
	if (from->count && (!into->count || from->min_ns < into->min_ns))
		into->min_ns = from->min_ns;
	if (from->max_ns > into->max_ns)
		into->max_ns = from->max_ns;
	into->count += from->count;
	into->bytes += from->bytes;
	into->device_bytes += from->device_bytes;
	into->total_ns += from->total_ns;
	into->queued_ns += from->queued_ns;
	from->owner = from->payer = 0;
	from->query = 0;
	from->key = KEYS;
	from->next = 0;
	from->count = from->bytes = from->device_bytes = from->total_ns = 0;
	from->min_ns = from->max_ns = from->queued_ns = 0;
}

__noinline int move_slot(__u32 from, __u32 to)
{
	struct slot *source = slot_at(from), *into = slot_at(to);
	__u32 i, chunk;

	if (!source || !into)
		return 0;
	for (i = 0; i < CHUNKS; i++) {
		chunk = source->chunk[i];
		if (!chunk)
			continue;
		if (!into->chunk[i]) {
			into->chunk[i] = chunk;
			source->chunk[i] = 0;
			continue;
		}
		move_chunk(chunk - 1, into->chunk[i] - 1);
		source->chunk[i] = 0;
		give_chunk(chunk - 1);
	}
	move_sums(source, into);
	give_slot(from);
	return 0;
}

/* Lets a slot of a query be its statement's (or what was outside queries, if that is 0), or
 * adds it to the one that is there already. Returns the next of the query's slots. */
__noinline int fold_slot(__u32 place, __u64 statement)
{
	struct slot *slot = slot_at(place - 1);
	struct slot_key key = {};
	__u32 known, next, index = place - 1;

	if (!slot)
		return 0;
	key.owner = slot->owner;
	key.payer = slot->payer;
	key.query = slot->query;
	key.key = slot->key;
	key.file = slot->file;
	bpf_map_delete_elem(&pgt_slot_indexes, &key);
	next = slot->next;
	key.query = statement;
	if (!statement && key.key >= KEYS / SCOPES)
		key.key -= KEYS / SCOPES;
	known = known_slot(&key);
	if (known) {
		move_slot(index, known - 1);
		return next;
	}
	slot->query = statement;
	slot->key = key.key;
	slot->next = 0;
	bpf_map_update_elem(&pgt_slot_indexes, &key, &index, BPF_ANY);
	return next;
}

/* Some of them; returns the next. Not static, so that the verifier looks at the loop once. */
__noinline int fold_slots(__u32 place, __u64 statement)
{
	__u32 i;

	for (i = 0; i < FOLDED && place; i++)
		place = fold_slot(place, statement);
	return place;
}

/* Between two odd-even steps of `folding` a read may be counted twice, or not at all. */
static __always_inline void fold_query(struct task *task, __u64 statement)
{
	__u32 i, place = task->query.first_slot;

	if (!place)
		return;
	task->folding++;
	barrier();
	for (i = 0; i < FOLDS && place; i++)
		place = fold_slots(place, statement);
	barrier();
	task->folding++;
	task->query.first_slot = 0;
}

static __always_inline void count_call(struct calls *sums, struct query *query, bool failed)
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

/* Adds the query that ended to its statement's calls. What was only prepared is no call, and
 * its reads were outside queries. */
__noinline int count_query(__u32 task_index)
{
	struct task *task = task_at(task_index);
	struct statement *statement;
	bool failed;
	struct query *query;
	__u32 index;

	if (!task)
		return 0;
	query = &task->query;
	failed = query->failed || (query->protocol == SIMPLE && !query->done);
	if (!query->executed && !failed && query->protocol != SIMPLE && !query->begun_before) {
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
