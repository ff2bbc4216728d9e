/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The text of a query, and whose it is: application_name. */
#ifndef QUERY_TEXT_BPF_H
#define QUERY_TEXT_BPF_H

#include "branchless.bpf.h"
#include "tasks.bpf.h"

#define EMPTY 256 /* bytes of a text that are looked through for anything but comments */

/* Behind a pooler it changes with the client: it is the query's, not the backend's. */
static __noinline int read_application_name(struct pgt_task *task)
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

/* Reads a text into the task's scratch; returns its length without the NUL. */
static __always_inline __u32 fetch_text(struct pgt_task *task, const char *text)
{
	long length = bpf_probe_read_user_str(task->text, TEXT, text);

	return length > 0 ? length - 1 : 0;
}

static __noinline int same_text(struct pgt_task *task, __u32 length)
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

static __always_inline void take_text(struct pgt_task *task, const char *text, __u32 length)
{
	struct pgt_query *query = &task->query;
	char next = 0;

	bpf_probe_read_kernel(query->text, TEXT, task->text);
	query->text_length = length;
	/* One that just fits is whole: where more would be is its NUL */
	query->cut =
	    length == TEXT - 1 && (bpf_probe_read_user(&next, sizeof(next), text + length) || next);
}

/* Whether there is nothing in the text of a task's query but spaces, semicolons and comments. It
 * is asked for of few: of what is over and neither ran nor failed. */
__noinline int is_empty(__u32 task_index)
{
	struct pgt_task *task = task_at(task_index);
	__u64 c, line = 0, depth = 0, held = 0, in, out, opens, closes, dashes, spaces, begins;
	__u32 i;

	if (!task || task->query.text_length > EMPTY)
		return 0;
	for (i = 0; i < EMPTY; i++) {
		if (i >= task->query.text_length)
			break;
		c = (__u8)task->query.text[i];
		in = less(0, depth);
		out = (in | line) ^ 1;
		opens = (line ^ 1) & equal(held, '/') & equal(c, '*');
		closes = in & equal(held, '*') & equal(c, '/');
		dashes = out & equal(held, '-') & equal(c, '-');
		spaces = within(c, '\t', '\r') | equal(c, ' ') | equal(c, ';');
		begins = equal(c, '-') | equal(c, '/');
		if (out & ((less(0, held) & ((opens | dashes) ^ 1)) |
			   (equal(held, 0) & ((spaces | begins) ^ 1))))
			return 0;
		line = dashes | (line & ((equal(c, '\n') | equal(c, '\r')) ^ 1));
		depth += opens - closes;
		held = c * (((out & begins) | in) & ((opens | closes | dashes) ^ 1));
	}
	return depth || line || !held;
}

#endif
