/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Slots: where reads are counted, and what else is measured. A task takes a slot when it first
 * needs one for a key; those of a query are handed over with its record, and user space gives them
 * back when read. */
#ifndef SLOTS_BPF_H
#define SLOTS_BPF_H

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct slot);
} pgt_slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct chunk);
} pgt_chunks SEC(".maps");

/* Slots come back empty, with the chunks they had. */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1);
	__type(value, __u32);
} pgt_free_slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1);
	__type(value, __u32);
} pgt_free_chunks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct slot_key);
	__type(value, __u32); /* index of a slot */
} pgt_slot_indexes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} pgt_records SEC(".maps");

static __always_inline struct slot *slot_at(__u32 index)
{
	return bpf_map_lookup_elem(&pgt_slots, &index);
}

static __always_inline bool is_of(struct slot *slot, struct slot_key *key)
{
	return slot->query == key->query && slot->owner == key->owner &&
	       slot->payer == key->payer && slot->key == key->key && slot->file == key->file;
}

/* Returns its index + 1, or 0 if none is left. */
static __always_inline __u32 take_slot(struct slot_key *key)
{
	struct slot *slot;
	__u32 index;

	if (bpf_map_pop_elem(&pgt_free_slots, &index))
		return 0;
	slot = slot_at(index);
	if (!slot)
		return 0;
	slot->owner = key->owner;
	slot->payer = key->payer;
	slot->query = key->query;
	slot->key = key->key;
	slot->file = key->file;
	slot->next = 0;
	bpf_map_update_elem(&pgt_slot_indexes, key, &index, BPF_ANY);
	return index + 1;
}

/* The slot that is there already: index + 1, or 0. */
static __always_inline __u32 known_slot(struct slot_key *key)
{
	__u32 *found = bpf_map_lookup_elem(&pgt_slot_indexes, key);
	struct slot *slot = found ? slot_at(*found) : NULL;

	return slot && is_of(slot, key) ? *found + 1 : 0;
}

/* The same if its task does not remember it; those of a query are linked. */
static __noinline __u32 find_slot(struct task *task, struct slot_key *key)
{
	struct slot *slot;
	__u32 place;

	if (!task || !key)
		return 0;
	place = known_slot(key);
	if (place)
		return place;
	place = take_slot(key);
	slot = place ? slot_at(place - 1) : NULL;
	if (slot && key->query && key->query < OTHERS) {
		slot->next = task->query.first_slot;
		task->query.first_slot = place;
	}
	return place;
}

/* The slot for what a task reads for itself. */
static __always_inline struct slot *own_slot(struct task *task, struct file_state *state,
					     struct slot_key *key)
{
	__u32 *cached = &state->slot[key->key & (CACHED - 1)];
	struct slot *slot;

	if (*cached) {
		slot = slot_at(*cached - 1);
		if (slot && is_of(slot, key))
			return slot;
	}
	*cached = find_slot(task, key);
	return *cached ? slot_at(*cached - 1) : NULL;
}

/* The slot for what a task reads for another. Of those of a query user space is told. */
static __noinline __u32 charged_slot(struct slot_key *key)
{
	struct charged charged = {};
	__u32 place;

	if (!key)
		return 0;
	place = known_slot(key);
	if (place)
		return place;
	place = take_slot(key);
	if (!place || !options.per_query)
		return place;
	charged.record = RECORD_CHARGED;
	charged.payer = key->payer;
	charged.query = key->query;
	charged.slot = place;
	bpf_ringbuf_output(&pgt_records, &charged, sizeof(charged), BPF_RB_NO_WAKEUP);
	return place;
}

/* Puts a value into a histogram; false if there was no room to. */
static __always_inline bool count_value(__u32 *chunks, __u64 ns)
{
	struct chunk *chunk;
	__u32 which, sub, index;

	locate(ns, &which, &sub);
	/* The compiler may test one copy of it and use another, of which verifiers before 6.12 then
	 * know nothing */
	which = opaque(which);
	if (which >= CHUNKS)
		return false;
	if (!chunks[which]) {
		if (bpf_map_pop_elem(&pgt_free_chunks, &index))
			return false;
		chunks[which] = index + 1;
	}
	index = chunks[which] - 1;
	chunk = bpf_map_lookup_elem(&pgt_chunks, &index);
	if (!chunk)
		return false;
	chunk->count[sub & (SUBS - 1)]++;
	return true;
}

/* Counts one read; false if there was no room to. */
static __always_inline bool count_read(struct slot *slot, __u64 ns, __u64 bytes, __u64 device_bytes)
{
	if (!count_value(slot->chunk, ns))
		return false;
	if (!slot->count || ns < slot->min_ns)
		slot->min_ns = ns;
	if (ns > slot->max_ns)
		slot->max_ns = ns;
	slot->count++;
	slot->bytes += bytes;
	slot->device_bytes += device_bytes;
	slot->total_ns += ns;
	return true;
}

#endif
