/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Where a query begins and ends, as the client sees it: the rule. queries.bpf.c has the probes.
 *
 * A simple query runs from query__start until the backend goes idle. An extended one opens at
 * the first statement__status with a text and takes in parse, bind and execute; it ends at the
 * next such status after a portal ran, or when the backend goes idle. A scope in which nothing
 * ran and nothing failed was a prepare. A failed query fires neither query__done nor
 * query__execute__done: longjmp skips them, and also those of a portal within a portal whose
 * error was caught, so that portals cannot be counted up and down. None is reported within
 * another. docs/architecture.md has the sequences that each kind of client makes. */
#ifndef SCOPES_BPF_H
#define SCOPES_BPF_H

/* Behind a pooler it changes with the client: it is the query's, not the backend's. */
static __noinline int read_application_name(struct task *task)
{
	__u64 pointer = 0, address;
	__u32 place;

	if (!task)
		return 0;
	task->query.application_name[0] = 0;
	place = place_of(task->postmaster);
	if (place >= SERVERS)
		return 0;
	address = live.application_name[place & (SERVERS - 1)];
	if (address)
		bpf_probe_read_user(&pointer, sizeof(pointer), (void *)address);
	if (pointer)
		bpf_probe_read_user_str(task->query.application_name, NAME, (void *)pointer);
	return 0;
}

static __always_inline void open_scope(struct task *task, __u64 now)
{
	struct query *query = &task->query;

	if (!query->number)
		read_title(task->title, TITLE); /* now its user and database stand in it */
	query->record = RECORD_QUERY;
	query->serial = task->serial;
	query->number++;
	query->start_ns = now;
	query->end_ns = 0;
	query->first_slot = 0;
	query->protocol = EXTENDED;
	query->open = 1;
	query->executed = 0;
	query->done = 0;
	query->failed = 0;
	query->begun_before = 0;
	query->cut = 0;
	query->bound = 0;
	query->analysed = 0;
	query->several = 0;
	query->query_id = 0;
	query->statement = 0;
	query->waited_ns = 0;
	query->text_length = 0;
	read_application_name(task);
}

/* Sends the record, and with it the slots. If the ring is full the slots stay where they are,
 * counted in the backend's totals, and only the query is lost. */
static __always_inline void send_record(struct task *task)
{
	struct query *query = &task->query;
	__u32 size = query->text_length;

	if (size > TEXT)
		size = TEXT;
	size += __builtin_offsetof(struct query, text);
	if (bpf_ringbuf_output(&pgt_records, query, size, BPF_RB_NO_WAKEUP))
		task->lost_queries++;
}

static __noinline int close_scope(struct task *task)
{
	struct query *query;

	if (!task)
		return 0;
	query = &task->query;
	query->open = 0;
	/* An empty query runs no portal: its bind tells, or its text, which nobody prepares */
	if (query->bound || (!query->text_length && !query->begun_before))
		query->executed = 1;
	if (!query->executed && !query->failed && query->protocol != SIMPLE && !query->first_slot &&
	    !query->begun_before && !is_empty_query(query))
		return 0; /* a prepare that read nothing leaves nothing to tell */
	query->end_ns = bpf_ktime_get_ns();
	if (options.per_query)
		send_record(task);
	else
		count_query(task->index);
	return 0;
}

/* Reads a text into the task's scratch; returns its length without the NUL. */
static __always_inline __u32 fetch_text(struct task *task, const char *text)
{
	long length = bpf_probe_read_user_str(task->text, TEXT, text);

	return length > 0 ? length - 1 : 0;
}

static __noinline int same_text(struct task *task, __u32 length)
{
	__u64 *a, *b, difference;
	__u32 i, left;

	if (!task || length >= TEXT || task->query.text_length != length)
		return 0;
	a = (__u64 *)task->text;
	b = (__u64 *)task->query.text;
	for (i = 0; i < TEXT / 8; i++) {
		difference = a[i] ^ b[i];
		left = length - i * 8;
		if (left < 8)
			return !(difference & ((1ull << left * 8) - 1));
		if (difference)
			return 0;
	}
	return 1;
}

static __always_inline void take_text(struct task *task, const char *text, __u32 length)
{
	struct query *query = &task->query;
	char next = 0;

	bpf_probe_read_kernel(query->text, TEXT, task->text);
	query->text_length = length;
	/* One that just fits is whole: where more would be is its NUL */
	query->cut =
	    length == TEXT - 1 && (bpf_probe_read_user(&next, sizeof(next), text + length) || next);
}

static __always_inline int status_text(struct task *task, const char *text)
{
	struct query *query = &task->query;
	__u32 length = fetch_text(task, text);

	if (query->open) {
		if (!query->executed && query->protocol != SIMPLE && !query->begun_before &&
		    same_text(task, length)) {
			query->bound = 1;
			return 0;
		}
		/* Begun before, and nothing seen of it: the backend was idle when tracing began */
		if (!query->begun_before || query->executed || query->first_slot)
			close_scope(task);
	}
	open_scope(task, bpf_ktime_get_ns());
	take_text(task, text, length);
	return 0;
}

static __always_inline int status(const char *text)
{
	struct task *task = query_task();

	if (!task)
		return 0;
	if (text)
		return status_text(task, text);
	if (task->query.open)
		close_scope(task);
	return 0;
}

static __always_inline int simple_start(const char *text)
{
	struct task *task = query_task();

	if (!task)
		return 0;
	if (!task->query.open || task->query.begun_before) {
		open_scope(task, 0);
		take_text(task, text, fetch_text(task, text));
	}
	task->query.protocol = SIMPLE;
	task->query.start_ns = bpf_ktime_get_ns();
	return 0;
}

static __always_inline int simple_done(void)
{
	struct task *task = query_task();

	if (!task || !task->query.open)
		return 0;
	task->query.protocol = SIMPLE;
	task->query.done = 1;
	return 0;
}

static __always_inline int portal_start(void)
{
	struct task *task = query_task();

	if (task)
		task->query.executed = 1;
	return 0;
}

/* What goes on after an abort did not fail by it: a procedure may roll back, and logical
 * decoding does, through the same function. */
static __always_inline int portal_done(void)
{
	struct task *task = query_task();

	if (!task)
		return 0;
	task->query.executed = 1;
	task->query.failed = 0;
	return 0;
}

static __always_inline int aborted(void)
{
	struct task *task = query_task();

	if (task && task->query.open)
		task->query.failed = 1;
	return 0;
}

#endif
