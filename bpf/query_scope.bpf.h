/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Where a query begins and ends, as the client sees it: the rule. query_probes.bpf.c has the
 * probes.
 *
 * A simple query runs from query__start until the backend goes idle. An extended one opens at
 * the first statement__status with a text and takes in parse, bind and execute; it ends at the
 * next such status after a portal ran, or when the backend goes idle. A scope in which nothing
 * ran and nothing failed was a prepare, or was bound and never executed; but for an empty query,
 * which has no portal to run. A failed query fires neither query__done nor
 * query__execute__done: longjmp skips them, and also those of a portal within a portal whose
 * error was caught, so that portals cannot be counted up and down. docs/architecture.md has the
 * sequences that each kind of client makes. */
#ifndef QUERY_SCOPE_BPF_H
#define QUERY_SCOPE_BPF_H

#include "charge.bpf.h"
#include "fold.bpf.h"
#include "query_id.bpf.h"
#include "query_text.bpf.h"
#include "slots.bpf.h"
#include "statements.bpf.h"
#include "tasks.bpf.h"
#include "times.bpf.h"

#define SITES 256 /* places in servers' programs from which a text is reported */

/* Where no USDT probe tells the protocol, the place from which the text is reported does: each
 * kind of message has its own. Which it is, the first that gets as far as parse analysis shows. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SITES);
	__type(key, __u64);
	__type(value, __u8);
} pgt_sites SEC(".maps");

static __always_inline __u8 protocol_of_site(__u64 site)
{
	__u8 *known = bpf_map_lookup_elem(&pgt_sites, &site);

	return known ? *known : PROTOCOL_UNKNOWN;
}

static __always_inline void take_protocol(struct pgt_task *task, __u8 protocol)
{
	struct pgt_query *query = &task->query;

	if (query->begun_before || query->protocol == protocol ||
	    (query->protocol != PROTOCOL_UNKNOWN && protocol != SIMPLE))
		return;
	query->protocol = protocol;
	bpf_map_update_elem(&pgt_sites, &task->site, &protocol, BPF_ANY);
}

static __always_inline void open_scope(struct pgt_task *task, __u64 now)
{
	struct pgt_query *query = &task->query;

	if (options.times && now)
		settle_times(task->index, now, 0);
	if (!query->number)
		read_title(task->title, TITLE); /* now its user and database stand in it */
	query->record = RECORD_QUERY;
	query->serial = task->serial;
	query->number++;
	query->start_ns = now;
	query->end_ns = 0;
	query->first_slot = 0;
	query->protocol = options.no_usdt ? protocol_of_site(task->site) : EXTENDED;
	query->open = 1;
	query->executed = 0;
	task->portals[0] = 0;
	task->portals[1] = 0;
	query->done = !options.done;
	query->failed = 0;
	query->begun_before = 0;
	query->cut = 0;
	query->several = 0;
	query->query_id = 0;
	query->statement = 0;
	query->waited_ns = 0;
	query->text_length = 0;
	read_application_name(task);
}

/* Sends the record, and with it the slots. If the ring is full only the query is lost: its reads
 * stay in the backend's totals, with those of others that were lost, so that slots come back. */
static __always_inline void send_record(struct pgt_task *task)
{
	struct pgt_query *query = &task->query;
	__u32 size = query->text_length;

	if (size > TEXT)
		size = TEXT;
	size += __builtin_offsetof(struct pgt_query, text);
	if (!bpf_ringbuf_output(&pgt_records, query, size, BPF_RB_NO_WAKEUP))
		return;
	task->lost_queries++;
	__sync_fetch_and_add(&live.lost_queries, 1);
	fold_query(task, OTHERS);
}

/* Not static, so that the verifier looks at it once. */
__noinline int close_scope(__u32 task_index)
{
	struct pgt_task *task = task_at(task_index);
	struct pgt_query *query;
	__u64 now;

	if (!task)
		return 0;
	now = bpf_ktime_get_ns();
	query = &task->query;
	if (options.times && query->open)
		settle_times(task->index, now, query->number);
	query->open = 0;
	if (!query->executed && !query->failed && query->protocol != SIMPLE &&
	    !query->begun_before) {
		query->executed = is_empty(task->index);
		if (!query->executed && !query->first_slot)
			return 0; /* a prepare that read nothing leaves nothing to tell */
	}
	query->end_ns = now;
	learn_query_id(task->index, true);
	if (options.per_query)
		send_record(task);
	else
		count_query(task->index);
	return 0;
}

static __always_inline int status_text(struct pgt_task *task, const char *text, __u64 site)
{
	struct pgt_query *query = &task->query;
	bool was_open = query->open;
	__u32 length = 0;

	if (was_open) {
		length = fetch_text(task->text, text);
		if (!query->executed && query->protocol != SIMPLE && !query->begun_before &&
		    (!options.no_usdt || protocol_of_site(site) != SIMPLE) &&
		    same_text(task->index, length)) {
			task->site = site;
			return 0;
		}
		/* Begun before, and nothing seen of it: the backend was idle when tracing began */
		if (!query->begun_before || query->executed || query->first_slot)
			close_scope(task->index);
	}
	task->site = site;
	open_scope(task, bpf_ktime_get_ns());
	if (was_open)
		move_text(task, text, length);
	else
		read_text(query, text);
	return 0;
}

static __always_inline int status(const char *text, __u64 site)
{
	struct pgt_task *task = query_task();

	if (!task)
		return 0;
	begin_change(task);
	if (text)
		status_text(task, text, site);
	else if (task->query.open)
		close_scope(task->index);
	end_change(task);
	return 0;
}

static __always_inline int simple_start(const char *text)
{
	struct pgt_task *task = query_task();
	__u64 now;
	bool left;

	if (!task)
		return 0;
	begin_change(task);
	if (!task->query.open || task->query.begun_before) {
		open_scope(task, 0);
		read_text(&task->query, text);
	}
	task->query.protocol = SIMPLE;
	now = bpf_ktime_get_ns();
	/* Its CPU, since the scope was opened: that is counted in it */
	left = options.times && task->query.start_ns && task->times.in_ns > task->query.start_ns;
	if (options.times && !left)
		settle_times(task->index, now, 0);
	if (!left)
		task->query.start_ns = now;
	end_change(task);
	return 0;
}

static __always_inline int simple_done(void)
{
	struct pgt_task *task = begun_query_task();

	if (!task || !task->query.open)
		return 0;
	task->query.protocol = SIMPLE;
	task->query.done = 1;
	return 0;
}

static __always_inline int portal_start(void)
{
	struct pgt_task *task = query_task();

	if (!task)
		return 0;
	task->query.executed = 1;
	if (options.no_usdt) /* of a simple query this was known before */
		take_protocol(task, EXTENDED);
	return 0;
}

/* What goes on after an abort did not fail by it: a procedure may roll back, and logical
 * decoding does, through the same function. What changes rows and is not prepared reports first
 * within its portal (PortalRunMulti()), then as all do (PortalRun()): it is one all the same. */
static __always_inline int portal_done(__u64 site)
{
	struct pgt_task *task = begun_query_task();
	__u32 other;

	if (!task)
		return 0;
	if (!task->portal_site)
		task->portal_site = site;
	other = task->portal_site != site;
	task->query.executed = ++task->portals[other] > 1 ? 2 : 1;
	task->query.failed = 0;
	return 0;
}

static __always_inline int aborted(void)
{
	struct pgt_task *task = begun_query_task();

	if (task && task->query.open)
		task->query.failed = 1;
	return 0;
}

#endif
