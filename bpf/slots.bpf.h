/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Slots: where reads are counted. A task takes a slot when it first needs one for a key; those
 * of a query are handed over with its record, and user space gives them back when read. */
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
	__type(key, struct charged_key);
	__type(value, __u32); /* index of a slot */
} pgt_charged SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} pgt_records SEC(".maps");

struct owner {
	__u32 task;
	__u32 payer;
	__u64 query;
	__u32 key;
};

static __always_inline struct slot *slot_at(__u32 index)
{
	return bpf_map_lookup_elem(&pgt_slots, &index);
}

static __always_inline bool is_of(struct slot *slot, struct owner *owner)
{
	return slot->query == owner->query && slot->owner == owner->task &&
	       slot->payer == owner->payer && slot->key == owner->key;
}

/* Returns its index + 1, or 0 if none is left. */
static __always_inline __u32 take_slot(struct owner *owner)
{
	struct slot *slot;
	__u32 index;

	if (bpf_map_pop_elem(&pgt_free_slots, &index))
		return 0;
	slot = slot_at(index);
	if (!slot)
		return 0;
	slot->owner = owner->task;
	slot->payer = owner->payer;
	slot->query = owner->query;
	slot->key = owner->key;
	slot->next = 0;
	return index + 1;
}

/* The slot for what a task reads for itself. */
static __always_inline struct slot *own_slot(struct task *task, struct owner *owner)
{
	__u32 taken, key = owner->key;
	struct slot *slot;

	/* Hidden from clang, which knows that it never is: the verifier of 6.1 does not */
	barrier_var(key);
	if (key >= KEYS)
		return NULL;
	if (task->slot[key]) {
		slot = slot_at(task->slot[key] - 1);
		if (slot && is_of(slot, owner))
			return slot;
	}
	taken = take_slot(owner);
	slot = taken ? slot_at(taken - 1) : NULL;
	if (!slot)
		return NULL;
	if (owner->query) {
		slot->next = task->query.first_slot;
		task->query.first_slot = taken;
	}
	task->slot[key] = taken;
	return slot;
}

/* The slot for what a task reads for another; user space is told of each one taken. */
static __noinline __u32 charged_slot(struct owner *owner)
{
	struct charged_key key = {};
	struct charged charged = {};
	struct slot *slot;
	__u32 *found, index;

	if (!owner)
		return 0;
	key.owner = owner->task;
	key.payer = owner->payer;
	key.query = owner->query;
	key.key = owner->key;
	found = bpf_map_lookup_elem(&pgt_charged, &key);
	if (found) {
		slot = slot_at(*found);
		if (slot && is_of(slot, owner))
			return *found + 1;
	}
	index = take_slot(owner);
	if (!index)
		return 0;
	charged.record = RECORD_CHARGED;
	charged.payer = owner->payer;
	charged.query = owner->query;
	charged.slot = index--;
	bpf_map_update_elem(&pgt_charged, &key, &index, BPF_ANY);
	bpf_ringbuf_output(&pgt_records, &charged, sizeof(charged), BPF_RB_NO_WAKEUP);
	return index + 1;
}

/* Counts one read; false if there was no room to. */
static __always_inline bool count_read(struct slot *slot, __u64 ns, __u64 bytes, __u64 device_bytes)
{
	struct chunk *chunk;
	__u32 which, sub, index;

	locate(ns, &which, &sub);
	if (which >= CHUNKS)
		return false;
	if (!slot->chunk[which]) {
		if (bpf_map_pop_elem(&pgt_free_chunks, &index))
			return false;
		slot->chunk[which] = index + 1;
	}
	index = slot->chunk[which] - 1;
	chunk = bpf_map_lookup_elem(&pgt_chunks, &index);
	if (!chunk)
		return false;
	chunk->count[sub & (SUBS - 1)]++;
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
