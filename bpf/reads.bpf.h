/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reads: one handler at the entry and one at the exit; read_probes.bpf.c has the probe types. */
#ifndef READS_BPF_H
#define READS_BPF_H

#include "booking.bpf.h"
#include "charge.bpf.h"
#include "counting.bpf.h"
#include "files.bpf.h"
#include "requests.bpf.h"
#include "slots.bpf.h"
#include "tasks.bpf.h"
#include "vectors.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} pgt_durations SEC(".maps");

/* Bytes that the task asked its devices for since a request was submitted are that request's:
 * the kernel issues each before it takes the next. */
static __noinline int settle_request(struct pgt_task *task, __u64 read_bytes)
{
	struct pgt_request *request;
	__u64 key;

	if (!task || read_bytes == task->request_bytes)
		return 0;
	key = task->last_request;
	request = bpf_map_lookup_elem(&pgt_requests, &key);
	if (request)
		request->device_bytes += read_bytes - task->request_bytes;
	task->request_bytes = read_bytes;
	return 0;
}

/* A read whose end nobody saw: a kretprobe had no place left for it, or the program was left out,
 * since it was interrupted on that CPU when it ran for another task. */
static __always_inline void lose_unended_read(struct pgt_task *task)
{
	if (!task->start_ns)
		return;
	task->start_ns = 0;
	task->lost_reads++;
}

static __always_inline __u32 pattern_after(__u64 next, bool forgotten, __u64 position, __u64 window)
{
	if (next == NOWHERE)
		return forgotten ? PATTERN_UNKNOWN : FIRST;
	if (position == next)
		return SEQUENTIAL;
	if (position > next && position - next <= window)
		return NEAR;
	return RANDOM;
}

/* What nobody began to read for so long is not to be read any more: the error of who asked, or a
 * read that was not seen. */
#define LONGEST_QUEUE_NS      60000000000
#define LONGEST_QUEUE_JIFFIES 60000 /* with at most 1,000 in a second */

/* Whether a read that the task's server asked for may not be begun yet: where single rows are
 * looked up, none is. A look at the time that the kernel keeps anyway costs less than one for the
 * read. */
static __always_inline bool may_be_asked(struct pgt_task *task)
{
	__u32 noted;

	if (!asked_shift(task))
		return false;
	noted = live.handles[task->server & (SERVERS - 1)].noted;
	/* It may be one ahead, to be no 0 */
	return noted && (__u32)bpf_jiffies64() + 1 - noted <= LONGEST_QUEUE_JIFFIES;
}

/* Of every thread that ran already it is said that a query is open. */
static __always_inline bool runs_queries(struct pgt_query *query)
{
	return query->number && !query->begun_before;
}

/* Whoever begins to read what was asked for, an I/O worker or the asker itself, reads it for the
 * asker. Who asks for reads or runs queries is no I/O worker, and the same length is not read by
 * chance: a base backup reads the same files. */
static __noinline int take_asked(struct pgt_task *task, __u64 position, __u64 length)
{
	struct pgt_asked_key key = {};
	struct pgt_file_state *state;
	struct pgt_asked *asked;
	__u64 queued_ns;

	if (!task)
		return 0;
	task->charge.charged_to = 0;
	task->charge.known = 0;
	if (task->charge.expected) {
		task->charge.expected = 0;
		return 0;
	}
	if (!may_be_asked(task))
		return 0;
	state = &task->files[task->file & (FILES - 1)];
	key.relation = state->identity;
	key.position = state->base + position;
	key.postmaster = task->postmaster;
	asked = bpf_map_lookup_elem(&pgt_asked, &key);
	if (!asked || (length && length != asked->length))
		return 0;
	queued_ns = bpf_ktime_get_ns() - asked->asked_ns;
	if (queued_ns < LONGEST_QUEUE_NS) {
		if (asked->charged_to != task->serial) {
			if (task->charge.asks || runs_queries(&task->query))
				return 0;
			task->charge.query = asked->query;
			task->charge.queued_ns = queued_ns;
			task->charge.charged_to = asked->charged_to;
		}
		task->charge.pattern =
		    pattern_after(asked->next, asked->forgotten, key.position, state->window);
		task->charge.known = 1;
	}
	bpf_map_delete_elem(&pgt_asked, &key);
	return 0;
}

/* The clock is read last here, and first at the exit: what this costs is not in the time. */
static __always_inline int read_enter(struct pgt_task *task, struct file *file, __u64 asked,
				      __u64 position)
{
	struct counters counters;

	lose_unended_read(task);
	if (!file || !find_file(task, file))
		return 0;
	if (options.asked)
		take_asked(task, position, asked);
	counters = current_counters();
	if (task->last_request)
		settle_request(task, counters.read_bytes);
	task->last_request = 0;
	task->read_bytes = counters.read_bytes;
	task->switches = counters.switches;
	task->asked = asked;
	task->position = position;
	task->start_ns = bpf_ktime_get_ns();
	return 0;
}

/* Whether what was asked of the device comes after what was read, which was there then. The page
 * cache tells by its window: it begins at what is missing, or behind the page that was found and
 * marked, no further than a window is long (page_cache_sync_ra() and page_cache_async_ra() in
 * mm/readahead.c, before 5.18 ondemand_readahead(); 6.18 makes the next one shorter than the last
 * to align it). What is read at random leaves it where it was, and asks for no more than itself. */
static __noinline int asked_ahead(struct pgt_task *task, __u64 length, __u64 grown)
{
	struct pgt_file_state *state;
	struct file *file;
	__u64 last, start;

	if (!task)
		return 0;
	state = &task->files[task->file & (FILES - 1)];
	file = (void *)state->file;
	last = (task->position + length - 1) / options.page_bytes;
	start = BPF_CORE_READ(file, f_ra.start);
	if (start <= last)
		return 0;
	if (start - last <= BPF_CORE_READ(file, f_ra.size))
		return 1;
	return grown > length && (start - last) * options.page_bytes <= state->window;
}

/* A device that answers while it is asked lets nobody sleep: one in memory, or of a virtual machine
 * whose host takes its time. The window of what lies below an overlay is not that of the file. */
static __always_inline __u32 source_of(struct pgt_task *task, __u32 flags, __u64 grown, bool slept,
				       __u64 length)
{
	if (grown && (slept || flags & DIRECT))
		return DEVICE;
	if (grown && flags & TELLABLE)
		return asked_ahead(task, length, grown) ? READAHEAD_ISSUED : DEVICE;
	if (grown)
		return READAHEAD_ISSUED;
	if (!has_io_accounting() || !(flags & TELLABLE))
		return SOURCE_UNKNOWN;
	return slept ? WAIT : PAGE_CACHE;
}

/* How a read, or a write, follows the last one of the same relation, and that it was the last
 * now. */
static __always_inline __u32 pattern_of(struct pgt_task *task, struct pgt_file_state *state,
					bool write, __u64 position, __u64 length)
{
	__u32 i = state->stream & (FILES - 1);
	__u64 *last = write ? &task->written[i] : &task->streams[i].next;
	__u64 next = *last;

	if (task->streams[i].identity != state->identity) {
		/* Forgotten, while another segment of the relation was not read */
		state->stream = find_stream(task, state->identity);
		i = state->stream & (FILES - 1);
		last = write ? &task->written[i] : &task->streams[i].next;
		next = *last;
	}
	position += state->base;
	*last = position + length;
	return pattern_after(next, forgot_some(task), position, state->window);
}

static __always_inline __u32 size_of(__u64 bytes)
{
	__u64 blocks = (bytes + (1ull << options.block_shift) - 1) >> options.block_shift;

	if (blocks <= 1)
		return BLOCKS_1;
	if (blocks <= 4)
		return BLOCKS_2_4;
	return blocks <= 15 ? BLOCKS_5_15 : BLOCKS_16;
}

static __always_inline void count_excluded(struct pgt_excluded *excluded, __u64 bytes,
					   __u64 device_bytes, __u64 ns)
{
	excluded->count++;
	excluded->bytes += bytes;
	excluded->device_bytes += device_bytes;
	excluded->total_ns += ns;
}

static __always_inline __u32 key_of(__u64 query, __u32 operation, __u32 performer, __u32 flags,
				    __u64 bytes, __u32 pattern, __u32 source)
{
	__u32 key = (!!query * OPERATIONS + operation) * PERFORMERS + performer;

	key = key * 2 + !!(flags & DIRECT);
	return ((key * SIZES + size_of(bytes)) * PATTERNS + pattern) * SOURCES + source;
}

static __always_inline int read_exit(__s64 ret)
{
	struct counters counters;
	struct pgt_file_state *state;
	struct pgt_measured measured = {};
	struct pgt_slot_key key = {};
	struct pgt_charge charge;
	struct pgt_task *task;
	struct pgt_slot *slot;
	__u64 now, ns, grown;
	__u32 source, pattern, place;

	task = begun_task();
	if (!task || !task->start_ns)
		return 0;
	now = bpf_ktime_get_ns();
	ns = now - task->start_ns;
	task->start_ns = 0;
	charge = task->charge;
	counters = current_counters();
	grown = counters.read_bytes - task->read_bytes;
	if (ret < 0) {
		count_excluded(&task->failed, 0, grown, ns);
		return 0;
	}
	state = &task->files[task->file & (FILES - 1)];
	if (charge.known)
		pattern = charge.pattern;
	else
		pattern = pattern_of(task, state, false, task->position, ret);
	if ((__u64)ret < task->asked) {
		count_excluded(&task->cut_short, ret, grown, ns);
		return 0;
	}
	if (options.emit_durations)
		bpf_ringbuf_output(&pgt_durations, &ns, sizeof(ns), 0);
	source = source_of(task, state->flags, grown, counters.switches != task->switches, ret);
	pattern = unknown(task, pattern);
	source = unknown(task, source);
	measured.ns = ns;
	measured.bytes = ret;
	measured.device_bytes = grown;
	key.owner = task->serial;
	key.file = state->entry;
	if (charge.charged_to) {
		measured.queued_ns = charge.queued_ns;
		key.charged_to = charge.charged_to;
		key.query = charge.query;
		key.key = key_of(charge.query, OP_READ, ITSELF, state->flags, ret, pattern, source);
		place = charged_slot(&key, false);
		slot = place ? slot_at(place - 1) : NULL;
	} else {
		key.charged_to = task->serial;
		key.query = query_of(task, now, false);
		key.key = key_of(key.query, OP_READ, ITSELF, state->flags, ret, pattern, source);
		slot = own_slot(task, state, &key);
	}
	if (slot && count_read(slot, &measured, false))
		return 0;
	if (!count_by_kind(task, &key, state->by_kind, &measured))
		task->lost_reads++;
	return 0;
}

#endif
