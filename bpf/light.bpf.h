/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The light tier: no probe waits in the server. Which statement a task runs is looked up in its own
 * memory when it reads: PgBackendStatus has its state, when the statement began, and its query id;
 * debug_query_string has its text. PostgreSQL counts up st_changecount by two with each change, and
 * it is odd in between. A backend's entry is changed by itself alone: nothing of it moves while it
 * is looked at by a program that interrupted the backend. */
#ifndef LIGHT_BPF_H
#define LIGHT_BPF_H

#include "charge.bpf.h"
#include "query_text.bpf.h"
#include "statements.bpf.h"
#include "tasks.bpf.h"

static __always_inline __u64 text_seen(struct pgt_memory *memory)
{
	__u64 text = 0;

	if (memory->text)
		bpf_probe_read_user(&text, sizeof(text), (void *)memory->text);
	return text;
}

/* What the statement is found by. */
static __always_inline int describe(struct pgt_task *task, __u64 query_id, __u64 text)
{
	struct pgt_query *query = &task->query;

	if (!query->number)
		read_title(task->title, TITLE); /* now its user and database stand in it */
	query->number = 1;
	query->query_id = query_id;
	query->statement = 0;
	query->text_length = 0;
	query->cut = 0;
	if (text)
		read_text(query, (void *)text);
	read_application_name(task);
	return 1;
}

static __always_inline __u32 in_head(struct pgt_seen *seen, __u32 offset)
{
	return *(__u32 *)((void *)seen->head + (offset & (HEAD - sizeof(__u32))));
}

/* Reads where a task's entry begins, and returns whether it is that task's. Until one that starts
 * has written to it, it says what another ran who had it before, and has no pid, or that one's;
 * and after it was given back. */
static __always_inline bool read_head(struct pgt_task *task, struct pgt_memory *memory)
{
	struct pgt_seen *seen = &task->seen;

	if (bpf_probe_read_user(seen->head, HEAD, (void *)seen->entry))
		return false;
	return !task->inner_tgid || in_head(seen, memory->pid) == task->inner_tgid;
}

/* Looks for a task's entry, and whether it has one. A process keeps the one that it has. */
static __noinline int find_entry(struct pgt_task *task, struct pgt_memory *memory)
{
	if (!task || !memory)
		return 0;
	if (task->seen.entry && read_head(task, memory))
		return 1;
	task->seen.entry = 0;
	bpf_probe_read_user(&task->seen.entry, sizeof(task->seen.entry), (void *)memory->entry);
	return task->seen.entry && read_head(task, memory);
}

/* What else it says, unless the task was interrupted in the midst of a change; returns its state.
 */
static __always_inline __u32 read_entry(struct pgt_seen *seen, struct pgt_memory *memory)
{
	void *entry = (void *)seen->entry;
	__u32 state = 0;

	if (memory->start <= HEAD - sizeof(seen->start))
		seen->start = *(__u64 *)((void *)seen->head + memory->start);
	else
		bpf_probe_read_user(&seen->start, sizeof(seen->start), entry + memory->start);
	seen->query_id = 0;
	if (memory->query_id)
		bpf_probe_read_user(&seen->query_id, sizeof(seen->query_id),
				    entry + memory->query_id);
	bpf_probe_read_user(&state, sizeof(state), entry + memory->state);
	return state;
}

/* The statement that a task runs, if the server tells which and it was seen before: then no text
 * has to be read. Its application_name may have changed. */
static __always_inline __u64 seen_before(struct pgt_task *task, __u64 query_id)
{
	if (!query_id || !task->query.number)
		return 0;
	read_application_name(task);
	return known_by_id(task, query_id);
}

/* Looks at what a task runs. Returns whether it is another statement than before, which is to be
 * found then. Who reads or writes is not in the midst of a change of its entry; at the switch of
 * tasks it may be, and ran until then what it was seen to run before. */
__noinline int look(__u32 task_index, __u32 switches)
{
	struct pgt_task *task = task_at(task_index);
	__u64 start, query_id, text;
	struct pgt_memory *memory;
	__u32 state = 0, place;
	struct pgt_seen *seen;
	bool own;

	if (!task)
		return 0;
	seen = &task->seen;
	start = seen->start;
	query_id = seen->query_id;
	place = server_of(task);
	if (place >= SERVERS) {
		seen->known = 0;
		seen->statement = 0;
		return 0;
	}
	memory = &live.memory[place & (SERVERS - 1)];
	own = memory->found && find_entry(task, memory);
	if (own && seen->known && seen->changes == in_head(seen, memory->changes))
		return 0;
	seen->known = 0;
	if (memory->found) {
		if (own) {
			seen->changes = in_head(seen, memory->changes);
			if (seen->changes & 1) {
				if (switches)
					return 0;
				seen->statement = 0;
				__sync_fetch_and_add(&live.unseen, 1);
				return 0;
			}
			state = read_entry(seen, memory);
		}
		if (seen->last_start != seen->start)
			seen->last_statement = 0;
		seen->last_start = seen->start;
		seen->last_id = seen->query_id;
		if (state && state == memory->running) {
			seen->known = 1;
			/* Another field may have changed */
			if (seen->statement && start == seen->start && query_id == seen->query_id)
				return 0;
			seen->statement = seen_before(task, seen->query_id);
			if (seen->statement)
				return 0;
			text = text_seen(memory);
			return seen->query_id || text ? describe(task, seen->query_id, text) : 0;
		}
		/* It is idle. With track_activities = off it shows no start */
		if (state && seen->start) {
			seen->start = 0;
			seen->statement = 0;
			return 0;
		}
	}
	/* With track_activities = off a text is all that there is */
	seen->start = 0;
	seen->statement = 0;
	text = text_seen(memory);
	return text ? describe(task, 0, text) : 0;
}

/* The leader of a parallel worker; NULL: it has none, or its statement is known. */
static __always_inline struct pgt_task *leader_to_ask(struct pgt_task *task)
{
	struct pgt_leader_key key = {.postmaster = task->postmaster};
	__u32 *found;

	if (task->started_for || task->query.serial == task->serial)
		return NULL;
	key.inner_tgid = leader_pid(task);
	found = bpf_map_lookup_elem(&pgt_leaders, &key);
	return found ? task_at(*found) : NULL;
}

/* Whether an entry that was found is as it was then. All processes of a server share it. */
static __always_inline int is_unchanged(struct pgt_task *task)
{
	__u32 changes, place = server_of(task);

	return task->seen.known && place < SERVERS &&
	       !bpf_probe_read_user(&changes, sizeof(changes),
				    (void *)task->seen.entry +
					live.memory[place & (SERVERS - 1)].changes) &&
	       changes == task->seen.changes;
}

/* A parallel worker reads before it shows what it runs, and perhaps no more after. It is what its
 * leader was found to run, if the leader's entry has not changed since. */
__noinline int learn_from_leader(__u32 task_index)
{
	struct pgt_task *task = task_at(task_index), *leader;

	if (!task)
		return 0;
	leader = leader_to_ask(task);
	if (leader && is_unchanged(leader))
		task->started_for = leader->seen.statement;
	return 0;
}

/* Or it is what the leader was found to run while the worker did, which lives in one statement. */
static __always_inline void learn_at_exit(struct pgt_task *task)
{
	struct pgt_task *leader = leader_to_ask(task);

	if (leader && leader->seen.looked_ns >= task->began_ns)
		task->started_for = leader->seen.statement;
}

/* The statement that the current task runs, or 0. */
static __always_inline __u64 statement_seen(struct pgt_task *task, __u64 now, bool switches)
{
	struct pgt_seen *seen = &task->seen;

	seen->looked_ns = now;
	if (look(task->index, switches)) {
		find_statement(task->index, task->index);
		seen->statement = task->query.statement;
	} else if (!seen->statement && task->query.serial != task->serial) {
		learn_from_leader(task->index);
	}
	if (!task->started_for)
		task->started_for = seen->statement;
	if (seen->statement)
		seen->last_statement = seen->statement;
	return seen->statement;
}

#endif
