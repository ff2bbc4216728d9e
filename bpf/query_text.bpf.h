/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The text of a query, and whose it is: application_name. */
#ifndef QUERY_TEXT_BPF_H
#define QUERY_TEXT_BPF_H

#include "branchless.bpf.h"
#include "hash.bpf.h"
#include "tasks.bpf.h"

#define EMPTY  256 /* bytes of a text that are looked through for anything but comments */
#define PASSED 16  /* of these at a time */
#define NAMED  16  /* queries, of which one has its application_name read anew */

/* Of a name that is all 0 behind its end. Of none it is 0, as of a task that has not shown its own.
 */
static __always_inline __u64 name_hash(const char *name)
{
	__u64 hash = 0;
	__u32 i;

	for (i = 0; i < NAME / 8; i++)
		hash = with_word(hash, ((__u64 *)name)[i]);
	return hash;
}

/* Behind a pooler it changes with the client: it is the query's, not the backend's. Whoever sees
 * each query need not read a name that is where the one before was: it is that one, since
 * guc.c has a new value's memory before it lets go of the old one's, and of that no sooner than the
 * transaction ends. A procedure that changes it twice, and commits in between, may have the same
 * memory for another: that is found some queries later. */
static __noinline int read_application_name(struct pgt_task *task)
{
	__u64 pointer = 0, address;
	__u32 place;

	if (!task)
		return 0;
	place = server_of(task);
	address = place < SERVERS ? live.application_name[place & (SERVERS - 1)] : 0;
	if (address)
		bpf_probe_read_user(&pointer, sizeof(pointer), (void *)address);
	if (!options.light && pointer == task->named_at && task->query.number % NAMED)
		return 0;
	task->named_at = pointer;
	__builtin_memset(task->query.application_name, 0, NAME);
	task->application = 0;
	/* Swapped out, or on its way to another node: it is read again for the next query */
	if (pointer &&
	    bpf_probe_read_user_str(task->query.application_name, NAME, (void *)pointer) < 0)
		task->named_at = 0;
	task->application = name_hash(task->query.application_name);
	return 0;
}

/* Reads a text into TEXT bytes; returns its length without the NUL. */
static __always_inline __u32 fetch_text(char *into, const char *text)
{
	long length = bpf_probe_read_user_str(into, TEXT, text);

	return length > 0 ? length - 1 : 0;
}

/* Whether what was fetched is what the query has. Not static, so that the verifier looks at it
 * once. */
__noinline int same_text(__u32 task_index, __u32 length)
{
	struct pgt_task *task = task_at(task_index);
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

/* The query has this text, which stands there already. What is behind the end is of a text before,
 * and nobody looks at it. */
static __always_inline void take_text(struct pgt_query *query, const char *text, __u32 length)
{
	char next = 0;

	query->text_length = length;
	/* One that just fits is whole: where more would be is its NUL */
	query->cut =
	    length == TEXT - 1 && (bpf_probe_read_user(&next, sizeof(next), text + length) || next);
}

/* The same of one that is to be read. */
static __always_inline void read_text(struct pgt_query *query, const char *text)
{
	take_text(query, text, fetch_text(query->text, text));
}

/* And of one that is in the task's scratch. */
static __always_inline void move_text(struct pgt_task *task, const char *text, __u32 length)
{
	__u32 size = opaque(length + 1);

	bpf_probe_read_kernel(task->query.text, size <= TEXT ? size : TEXT, task->text);
	take_text(&task->query, text, length);
}

/* Looks on through the text of a task's query for anything but spaces, semicolons and comments:
 * true if there is. Not static, so that the verifier looks at it once. */
__noinline int says_something(__u32 task_index, __u32 from)
{
	struct pgt_task *task = task_at(task_index);
	__u64 c, line, depth, held, in, out, opens, closes, dashes, spaces, begins;
	__u32 i;

	if (!task)
		return 1;
	line = task->passed.line;
	depth = task->passed.depth;
	held = task->passed.held;
	for (i = 0; i < PASSED; i++, from++) {
		if (from >= EMPTY || from >= task->query.text_length)
			break;
		c = (__u8)task->query.text[from];
		in = less(0, depth);
		out = (in | line) ^ 1;
		opens = (line ^ 1) & equal(held, '/') & equal(c, '*');
		closes = in & equal(held, '*') & equal(c, '/');
		dashes = out & equal(held, '-') & equal(c, '-');
		spaces = within(c, '\t', '\r') | equal(c, ' ') | equal(c, ';');
		begins = equal(c, '-') | equal(c, '/');
		if (out & ((less(0, held) & ((opens | dashes) ^ 1)) |
			   (equal(held, 0) & ((spaces | begins) ^ 1))))
			return 1;
		line = dashes | (line & ((equal(c, '\n') | equal(c, '\r')) ^ 1));
		depth += opens - closes;
		held = c * (((out & begins) | in) & ((opens | closes | dashes) ^ 1));
	}
	task->passed.line = line;
	task->passed.depth = depth;
	task->passed.held = held;
	return 0;
}

/* Whether there is nothing else in it. It is asked for of few: of what is over and neither ran nor
 * failed. */
__noinline int is_empty(__u32 task_index)
{
	struct pgt_task *task = task_at(task_index);
	__u32 from;

	if (!task || task->query.text_length > EMPTY)
		return 0;
	__builtin_memset(&task->passed, 0, sizeof(task->passed));
	for (from = 0; from < EMPTY && from < task->query.text_length; from += PASSED)
		if (says_something(task_index, from))
			return 0;
	return task->passed.depth || task->passed.line || !task->passed.held;
}

#endif
