/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Counts a value in a histogram, and a read, write or fsync in its slot. */
#ifndef COUNTING_BPF_H
#define COUNTING_BPF_H

#include "histogram.bpf.h"
#include "slots.bpf.h"
#include "tasks.bpf.h"

/* One read, write or fsync. */
struct pgt_measured {
	__u64 ns;
	__u64 bytes;
	__u64 device_bytes;
	__u64 queued_ns;
};

/* Puts a value into a histogram; false if there was no room to, with `spare` not even that. */
static __always_inline bool count_value(__u32 *chunks, __u64 ns, bool spare)
{
	struct pgt_chunk *chunk;
	__u32 which, sub, index;

	locate(ns, &which, &sub);
	/* The compiler may test one copy of it and use another, of which verifiers before 6.12 then
	 * know nothing */
	which = opaque(which);
	if (which >= CHUNKS)
		return false;
	if (!chunks[which]) {
		if (bpf_map_pop_elem(&pgt_free_chunks, &index) &&
		    (!spare || bpf_map_pop_elem(&pgt_spare_chunks, &index)))
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

/* Counts how long something took; false if there was no room to. */
static __always_inline bool count_duration(struct pgt_slot *slot, __u64 ns, bool spare)
{
	if (!count_value(slot->chunk, ns, spare))
		return false;
	if (!slot->count || ns < slot->min_ns)
		slot->min_ns = ns;
	if (ns > slot->max_ns)
		slot->max_ns = ns;
	slot->count++;
	slot->total_ns += ns;
	return true;
}

/* The same of one read. */
static __always_inline bool count_read(struct pgt_slot *slot, struct pgt_measured *measured,
				       bool spare)
{
	if (!count_duration(slot, measured->ns, spare))
		return false;
	slot->bytes += measured->bytes;
	slot->device_bytes += measured->device_bytes;
	slot->queued_ns += measured->queued_ns;
	return true;
}

#define KEYS_PER_OPERATION (KEYS / SCOPES / OPERATIONS)

/* Counts what there was no room for, on all files of its kind: so much is spared. False if it is
 * lost. */
static __noinline int count_by_kind(struct pgt_task *task, struct pgt_slot_key *key, __u32 by_kind,
				    struct pgt_measured *measured)
{
	struct pgt_slot *slot;
	__u32 place, operation;
	bool own;

	if (!task || !key || !measured)
		return 0;
	if (key->file != by_kind)
		__sync_fetch_and_add(&live.by_kind, 1);
	key->file = by_kind;
	own = key->owner == task->serial && key->charged_to == task->serial &&
	      (key->query >= OTHERS || !key->query || key->query == task->query.number);
	place = own ? find_slot(task, key, true) : charged_slot(key, true);
	slot = place ? slot_at(place - 1) : NULL;
	if (slot && count_read(slot, measured, true))
		return 1;
	__sync_fetch_and_add(slot ? &live.no_chunk : &live.no_slot, 1);
	operation = opaque(key->key / KEYS_PER_OPERATION % OPERATIONS);
	if (operation < OPERATIONS)
		__sync_fetch_and_add(&live.lost[operation], 1);
	return 0;
}

#endif
