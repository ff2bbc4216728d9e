/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Slots: where reads are counted, and what else is measured. A task takes a slot when it first
 * needs one for a key; those of a query are handed over with its record, and user space gives them
 * back when read. Whatever is given back is empty and has nothing: chunks go before their slot. */
#ifndef SLOTS_BPF_H
#define SLOTS_BPF_H

#include "tasks.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pgt_slot);
} pgt_slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pgt_chunk);
} pgt_chunks SEC(".maps");

/* What was given back last is taken first, so that no more of the memory is touched than was in use
 * at once: user space looks no further. */
struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, 1);
	__type(value, __u32);
} pgt_free_slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, 1);
	__type(value, __u32);
} pgt_free_chunks SEC(".maps");

/* For what there is no other room for: it is counted without its file. */
struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, 1);
	__type(value, __u32);
} pgt_spare_slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, 1);
	__type(value, __u32);
} pgt_spare_chunks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct pgt_slot_key);
	__type(value, __u32); /* index of a slot */
} pgt_slot_indexes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} pgt_records SEC(".maps");

static __always_inline struct pgt_slot *slot_at(__u32 index)
{
	return bpf_map_lookup_elem(&pgt_slots, &index);
}

static __always_inline bool is_of(struct pgt_slot *slot, struct pgt_slot_key *key)
{
	return slot->query == key->query && slot->owner == key->owner &&
	       slot->charged_to == key->charged_to && slot->key == key->key &&
	       slot->file == key->file;
}

static __always_inline long give_slot(__u32 index)
{
	if (index < options.spare_slots)
		return bpf_map_push_elem(&pgt_free_slots, &index, 0);
	return bpf_map_push_elem(&pgt_spare_slots, &index, 0);
}

static __always_inline long give_chunk(__u32 index)
{
	if (index < options.spare_chunks)
		return bpf_map_push_elem(&pgt_free_chunks, &index, 0);
	return bpf_map_push_elem(&pgt_spare_chunks, &index, 0);
}

/* Returns its index + 1, or 0 if none is left. */
static __always_inline __u32 take_slot(struct pgt_slot_key *key, bool spare)
{
	struct pgt_slot *slot;
	__u32 index;

	if (spare ? bpf_map_pop_elem(&pgt_spare_slots, &index)
		  : bpf_map_pop_elem(&pgt_free_slots, &index))
		return 0;
	slot = slot_at(index);
	if (!slot)
		return 0;
	if (bpf_map_update_elem(&pgt_slot_indexes, key, &index, BPF_ANY)) {
		give_slot(index);
		return 0;
	}
	slot->owner = key->owner;
	slot->charged_to = key->charged_to;
	slot->query = key->query;
	slot->key = key->key;
	slot->file = key->file;
	slot->next = 0;
	return index + 1;
}

/* The slot that is there already: index + 1, or 0. */
static __always_inline __u32 known_slot(struct pgt_slot_key *key)
{
	__u32 *found = bpf_map_lookup_elem(&pgt_slot_indexes, key);
	/* Once: user space may delete it meanwhile, and another take its place */
	__u32 index = found ? *(volatile __u32 *)found : 0;
	struct pgt_slot *slot = found ? slot_at(index) : NULL;

	return slot && is_of(slot, key) ? index + 1 : 0;
}

/* The same if its task does not remember it; those of a query are linked. */
static __noinline __u32 find_slot(struct pgt_task *task, struct pgt_slot_key *key, bool spare)
{
	struct pgt_slot *slot;
	__u32 place;

	if (!task || !key)
		return 0;
	place = known_slot(key);
	if (place)
		return place;
	place = take_slot(key, spare);
	slot = place ? slot_at(place - 1) : NULL;
	if (slot && key->query && key->query < OTHERS) {
		begin_change(task);
		slot->next = task->query.first_slot;
		task->query.first_slot = place;
		end_change(task);
	}
	return place;
}

/* The slot for what a task reads for itself. */
static __always_inline struct pgt_slot *
own_slot(struct pgt_task *task, struct pgt_file_state *state, struct pgt_slot_key *key)
{
	__u32 *cached = &state->slot[key->key & (CACHED - 1)];
	struct pgt_slot *slot;

	if (*cached) {
		slot = slot_at(*cached - 1);
		if (slot && is_of(slot, key))
			return slot;
	}
	*cached = find_slot(task, key, false);
	return *cached ? slot_at(*cached - 1) : NULL;
}

/* The slot for what a task reads for another. Of those of a query user space is told. */
static __noinline __u32 charged_slot(struct pgt_slot_key *key, bool spare)
{
	struct pgt_charged charged = {};
	__u32 place;

	if (!key)
		return 0;
	place = known_slot(key);
	if (place)
		return place;
	place = take_slot(key, spare);
	if (!place || !options.per_query)
		return place;
	charged.record = RECORD_CHARGED;
	charged.charged_to = key->charged_to;
	charged.query = key->query;
	charged.slot = place;
	if (bpf_ringbuf_output(&pgt_records, &charged, sizeof(charged), BPF_RB_NO_WAKEUP))
		__sync_fetch_and_add(&live.lost_queries, 1);
	return place;
}

#endif
