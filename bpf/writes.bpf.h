/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Writes, and what makes them last: fsync, fdatasync, sync_file_range. One handler at the entry
 * and one at the exit; write_probes.bpf.c and fsync_probes.bpf.c have the probe types. Apart from
 * those of reads, so that nothing of this is loaded, nor run, where reads alone are asked for. */
#ifndef WRITES_BPF_H
#define WRITES_BPF_H

#include "booking.bpf.h"
#include "charge.bpf.h"
#include "counting.bpf.h"
#include "files.bpf.h"
#include "reads.bpf.h"
#include "slots.bpf.h"

static __always_inline void lose_write(struct pgt_task *task, bool sync)
{
	if (sync)
		task->writes.lost_syncs++;
	else
		task->writes.lost_writes++;
}

static __always_inline int write_enter(struct pgt_task *task, struct file *file, __u32 operation,
				       __u64 asked, __u64 position)
{
	struct counters counters;

	if (task->other_ns) { /* as lose_unended_read() */
		task->other_ns = 0;
		lose_write(task, task->operation != OP_WRITE);
	}
	if (!file || !(operation == OP_WRITE ? find_file(task, file) : find_synced(task, file)))
		return 0;
	counters = current_counters();
	if (task->last_request)
		settle_request(task, counters.read_bytes);
	task->last_request = 0;
	task->read_bytes = counters.read_bytes;
	task->switches = counters.switches;
	task->asked = asked;
	task->position = position;
	task->operation = operation;
	task->other_ns = bpf_ktime_get_ns();
	return 0;
}

/* A write into the page cache that slept waited for memory, a lock, the journal, or for the rest
 * of its block to be read; which of them is not known. One that had to go to the device waited
 * for that. */
static __always_inline __u32 source_of_write(__u32 flags, bool slept)
{
	if (!has_io_accounting() || !(flags & TELLABLE))
		return SOURCE_UNKNOWN;
	if (flags & STORED && flags & (DIRECT | DURABLE))
		return slept ? DEVICE : SOURCE_UNKNOWN;
	return slept ? WAIT : PAGE_CACHE;
}

/* Not those of io_uring: PostgreSQL 18 makes none. */
static __always_inline int write_exit(bool sync, __s64 ret)
{
	struct counters counters;
	struct pgt_file_state *state;
	struct pgt_measured measured = {};
	struct pgt_slot_key key = {};
	struct pgt_task *task;
	struct pgt_slot *slot;
	__u64 now, ns, grown, bytes = 0;
	__u32 source, pattern = PATTERN_UNKNOWN, flags = 0;
	bool slept;

	task = begun_task();
	if (!task || !task->other_ns)
		return 0;
	now = bpf_ktime_get_ns();
	ns = now - task->other_ns;
	task->other_ns = 0;
	counters = current_counters();
	grown = counters.read_bytes - task->read_bytes;
	slept = counters.switches != task->switches;
	if (ret < 0) {
		count_excluded(sync ? &task->writes.failed_syncs : &task->writes.failed, 0, grown,
			       ns);
		return 0;
	}
	state = &task->files[task->file & (FILES - 1)];
	if (sync) {
		/* Where it slept it waited for the device, the journal or a lock */
		source = slept ? WAIT : SOURCE_UNKNOWN;
	} else {
		bytes = ret;
		flags = state->flags;
		pattern = pattern_of(task, state, true, task->position, bytes);
		if (bytes < task->asked) {
			count_excluded(&task->writes.cut_short, bytes, grown, ns);
			return 0;
		}
		source = source_of_write(flags, slept);
		pattern = unknown(task, pattern);
	}
	source = unknown(task, source);
	key.owner = task->serial;
	key.charged_to = task->serial;
	key.query = query_of(task, now, false);
	key.key = key_of(key.query, task->operation, ITSELF, flags, bytes, pattern, source);
	key.file = state->entry;
	measured.ns = ns;
	measured.bytes = bytes;
	measured.device_bytes = grown;
	slot = own_slot(task, state, &key);
	if (slot && count_read(slot, &measured, false))
		return 0;
	if (count_by_kind(task, &key, state->by_kind, &measured))
		return 0;
	lose_write(task, sync);
	return 0;
}

#endif
