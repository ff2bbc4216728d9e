/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Puts the slots of a query that ended to its statement's, or outside queries. */
#ifndef FOLD_BPF_H
#define FOLD_BPF_H

#include "slots.bpf.h"
#include "tasks.bpf.h"

/* Adds one chunk to another, and leaves it empty. */
__noinline int move_chunk(__u32 from, __u32 to)
{
	struct pgt_chunk *source = bpf_map_lookup_elem(&pgt_chunks, &from);
	struct pgt_chunk *into = bpf_map_lookup_elem(&pgt_chunks, &to);
	__u32 i;

	if (!source || !into)
		return 0;
	for (i = 0; i < SUBS; i++) {
		into->count[i] += source->count[i];
		source->count[i] = 0;
	}
	return 0;
}

static __always_inline void move_sums(struct pgt_slot *from, struct pgt_slot *into)
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
	from->owner = from->charged_to = 0;
	from->query = 0;
	from->key = ALL_KEYS;
	from->next = 0;
	from->count = from->bytes = from->device_bytes = from->total_ns = 0;
	from->min_ns = from->max_ns = from->queued_ns = 0;
}

__noinline int move_slot(__u32 from, __u32 to)
{
	struct pgt_slot *source = slot_at(from), *into = slot_at(to);
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

static __always_inline __u32 key_outside(__u32 key)
{
	if (key >= KEYS)
		return key >= KEYS + TIMES ? key - TIMES : key;
	return key >= KEYS / SCOPES ? key - KEYS / SCOPES : key;
}

/* Lets a slot of a query be its statement's (or what was outside queries, if that is 0), or
 * adds it to the one that is there already. Returns the next of the query's slots. */
__noinline int fold_slot(__u32 place, __u64 statement)
{
	struct pgt_slot *slot = slot_at(place - 1);
	struct pgt_slot_key key = {};
	__u32 known, next, index = place - 1;

	if (!slot)
		return 0;
	key.owner = slot->owner;
	key.charged_to = slot->charged_to;
	key.query = slot->query;
	key.key = slot->key;
	key.file = slot->file;
	bpf_map_delete_elem(&pgt_slot_indexes, &key);
	next = slot->next;
	key.query = statement;
	if (!statement)
		key.key = key_outside(key.key);
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

/* Some of them; returns the next. Not static, so that the verifier looks at each loop once. */
__noinline int fold_slots(__u32 place, __u64 statement)
{
	__u32 i;

	for (i = 0; i < FOLDED && place; i++)
		place = fold_slot(place, statement);
	return place;
}

__noinline int fold_more(__u32 place, __u64 statement)
{
	__u32 i;

	for (i = 0; i < FOLDED && place; i++)
		place = fold_slots(place, statement);
	return place;
}

/* All of them: of 262,144, which are more than there are, but where --max-statements made them
 * more. Between two odd-even steps of `folding` a read may be counted twice, or not at all. */
static __always_inline void fold_query(struct pgt_task *task, __u64 statement)
{
	__u32 i, place = task->query.first_slot;

	if (!place)
		return;
	task->folding++;
	store_barrier();
	for (i = 0; i < FOLDED && place; i++)
		place = fold_more(place, statement);
	store_barrier();
	task->folding++;
	task->query.first_slot = 0;
}

#endif
