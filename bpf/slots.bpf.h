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

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1);
	__type(value, __u32);
} pgt_free SEC(".maps");

static __always_inline struct slot *slot_at(__u32 index)
{
	return bpf_map_lookup_elem(&pgt_slots, &index);
}

/* Slots given back come empty, with the chunks they had. */
static __noinline __u32 take_slot(void)
{
	__u32 index;

	if (bpf_map_pop_elem(&pgt_free, &index) == 0)
		return index + 1;
	/* Looked at before it is added to, so that it cannot run around */
	if (taken.slots >= options.max_slots)
		return 0;
	index = __sync_fetch_and_add(&taken.slots, 1);
	return index < options.max_slots ? index + 1 : 0;
}

static __noinline __u32 take_chunk(void)
{
	__u32 index;

	if (taken.chunks >= options.max_chunks)
		return 0;
	index = __sync_fetch_and_add(&taken.chunks, 1);
	return index < options.max_chunks ? index + 1 : 0;
}

static __always_inline struct slot *slot_of(struct task *task, __u32 index, __u32 key,
					    bool in_query)
{
	__u64 query = in_query ? task->query.number : 0;
	struct slot *slot;
	__u32 fresh;

	if (key >= KEYS)
		return NULL;
	if (task->slot[key]) {
		slot = slot_at(task->slot[key] - 1);
		if (slot && slot->query == query && slot->task == index && slot->key == key)
			return slot;
	}
	fresh = take_slot();
	slot = fresh ? slot_at(fresh - 1) : NULL;
	if (!slot)
		return NULL;
	slot->task = index;
	slot->key = key;
	slot->query = query;
	slot->next = 0;
	if (in_query) {
		slot->next = task->query.first_slot;
		task->query.first_slot = fresh;
	}
	task->slot[key] = fresh;
	return slot;
}

/* Counts one read; false if there was no room to. */
static __always_inline bool count_read(struct slot *slot, __u64 ns, __u64 bytes, __u64 device_bytes)
{
	struct chunk *chunk;
	__u32 which, sub;

	locate(ns, &which, &sub);
	if (which >= CHUNKS)
		return 0;
	if (!slot->chunk[which])
		slot->chunk[which] = take_chunk();
	which = slot->chunk[which] - 1;
	chunk = bpf_map_lookup_elem(&pgt_chunks, &which);
	if (!chunk)
		return 0;
	chunk->count[sub & (SUBS - 1)]++;
	if (!slot->count || ns < slot->min_ns)
		slot->min_ns = ns;
	if (ns > slot->max_ns)
		slot->max_ns = ns;
	slot->count++;
	slot->bytes += bytes;
	slot->device_bytes += device_bytes;
	slot->total_ns += ns;
	return 1;
}

#endif
