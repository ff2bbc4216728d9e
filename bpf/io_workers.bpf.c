// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* PostgreSQL 18's asynchronous I/O: reads that an I/O worker performs are charged to the backend
 * that asked, and to the query that it ran then. */

#include "booking.bpf.h"
#include "branchless.bpf.h"
#include "charge.bpf.h"
#include "files.bpf.h"
#include "preemption.bpf.h"
#include "requests.bpf.h"
#include "tasks.bpf.h"
#include "user_arguments.bpf.h"

/* RelFileLocator, with which SMgrRelationData begins: it is "the hashtable lookup key, so it must
 * be first" (src/include/storage/smgr.h). */
struct relation_numbers {
	__u32 tablespace;
	__u32 database;
	__u32 relation;
};

/* The letter with which the name of a file has a fork's, by its ForkNumber. */
static __always_inline __u32 letter_of(__u32 fork)
{
	switch (fork) {
	case 1:
		return 'f';
	case 2:
		return 'v';
	case 3:
		return 'i';
	}
	return 0;
}

/* How a PgAioHandle begins (src/include/storage/aio_internal.h of PostgreSQL 18 and 19). */
struct handle_begin {
	__u8 state;
	__u8 target; /* nothing, until the file is known */
	__u8 operation;
	__u8 flags;
};

#define HANDED_OUT 1   /* PGAIO_HS_HANDED_OUT */
#define READ	   1   /* PGAIO_OP_READV */
#define BY_ITSELF  3   /* PGAIO_HF_SYNCHRONOUS and PGAIO_HF_REFERENCES_LOCAL */
#define HANDLE	   256 /* its bytes that are looked at: more than it has */
#define BATCH	   32  /* PGAIO_SUBMIT_BATCH_SIZE: handles that are handed over at once */

static __always_inline bool was_handed_out(struct handle_begin *begin)
{
	return begin->state == HANDED_OUT && !begin->target && !begin->operation;
}

/* Whether who asks makes the read itself, and at once: then there is nothing to note for others,
 * and the read finds what it needs. Most reads of a query that looks up single rows are such. Where
 * the handle is not as it was when this was written, or once said so of a read that did not come
 * (an error may have), each is noted. */
static __always_inline bool reads_itself(struct pgt_task *task, struct handle_begin *begin)
{
	struct pgt_charge *charge = &task->charge;

	if (charge->expected)
		charge->doubted = 1;
	charge->expected = 0;
	if (charge->doubted || !was_handed_out(begin))
		return false;
	charge->expected = !!(begin->flags & BY_ITSELF);
	return charge->expected;
}

/* What is to be read; unless the task noted it after that time. */
static __always_inline void note(struct pgt_task *task, struct pgt_blocks *blocks, __u32 shift,
				 __u64 after, __u64 now, __u64 query)
{
	struct pgt_handles *handles = &live.handles[task->server & (SERVERS - 1)];
	struct pgt_asked_key key = {.postmaster = task->postmaster};
	struct pgt_asked *known, asked = {.asked_ns = now, .query = query};
	__u32 i, jiffies = bpf_jiffies64() | 1;

	key.relation =
	    identity_of(blocks->database, blocks->relation, letter_of(blocks->fork & 0xff));
	key.position = (__u64)blocks->first << (shift & 63);
	known = bpf_map_lookup_elem(&pgt_asked, &key);
	if (known && known->charged_to == task->serial && known->asked_ns > after)
		return;
	i = find_stream(task, key.relation) & (FILES - 1);
	asked.charged_to = task->serial;
	asked.next = task->streams[i].next;
	asked.forgotten = forgot_some(task);
	asked.length = (__u64)blocks->number << (shift & 63);
	task->streams[i].next = key.position + asked.length;
	if (handles->noted != jiffies) /* all processes of the server read it */
		handles->noted = jiffies;
	bpf_map_update_elem(&pgt_asked, &key, &asked, BPF_ANY);
}

/* Whether what is handed to I/O workers is noted then, and no longer when it is asked for. */
static __always_inline bool is_submitted(struct pgt_handles *handles)
{
	return handles->submitted && handles->agreed >= CERTAIN;
}

/* Looks for what the task asked for last in the handle that it had for that: it stays there until
 * the handle is used again, which at the entry of smgrstartreadv() it is not yet. Not static, so
 * that the verifier looks at it once. */
__noinline int learn_place(__u32 task_index, __u32 server)
{
	struct pgt_task *task = task_at(task_index);
	struct pgt_handles *handles = &live.handles[server & (SERVERS - 1)];
	struct pgt_blocks *sought, *at;
	__u64 found = 0, place = 0, same;
	__u32 i;

	if (!task || !task->charge.handle ||
	    bpf_probe_read_user(task->text, HANDLE, (void *)task->charge.handle))
		return 0;
	sought = &task->charge.blocks;
	for (i = sizeof(__u32); i <= HANDLE - sizeof(*at); i += sizeof(__u32)) {
		at = (void *)task->text + i;
		same = equal((at->tablespace ^ sought->tablespace) |
				 (at->database ^ sought->database) |
				 (at->relation ^ sought->relation) | (at->first ^ sought->first) |
				 (at->number ^ sought->number) | ((at->fork ^ sought->fork) & 0xff),
			     0);
		found += same;
		place += same * i;
	}
	if (found != 1)
		return 0; /* it was used again since */
	if (!handles->place)
		handles->place = place;
	if (handles->place == place)
		handles->agreed++;
	else if (handles->agreed < CERTAIN)
		handles->submitted = 0; /* no two agree: what they say is not believed */
	return 0;
}

static __always_inline int ask(struct handle_begin *ioh, struct relation_numbers *of, __u32 fork,
			       __u32 block, __u32 number)
{
	struct pgt_task *task = traced_task();
	struct relation_numbers numbers = {};
	struct handle_begin begin = {};
	struct pgt_handles *handles;
	struct pgt_blocks *blocks;
	__u32 shift;
	__u64 now;

	shift = task ? asked_shift(task) : 0;
	if (!shift)
		return 0;
	task->charge.asks = 1;
	handles = &live.handles[task->server & (SERVERS - 1)];
	if (is_submitted(handles)) {
		task->charge.expected = 0;
		return 0;
	}
	if (bpf_probe_read_user(&numbers, sizeof(numbers), of))
		return 0;
	if (!bpf_probe_read_user(&begin, sizeof(begin), ioh) && !was_handed_out(&begin) &&
	    handles->agreed < CERTAIN)
		handles->submitted = 0; /* it is not as it is known */
	if (handles->submitted)
		learn_place(task->index, task->server);
	blocks = &task->charge.blocks;
	task->charge.handle = (__u64)ioh;
	blocks->tablespace = numbers.tablespace;
	blocks->database = numbers.database;
	blocks->relation = numbers.relation;
	blocks->first = block;
	blocks->number = number;
	blocks->fork = fork;
	if (reads_itself(task, &begin))
		return 0;
	now = bpf_ktime_get_ns();
	note(task, blocks, shift, now, now, charged_query(task, now));
	return 0;
}

/* smgrstartreadv(PgAioHandle *ioh, SMgrRelation reln, ForkNumber forknum, BlockNumber blocknum,
 * void **buffers, BlockNumber nblocks), in the backend that asks: before it is known who will read.
 * The order of these calls is that of the scan. Detached when handles tell as much. */
SEC("uprobe")
int pgt_a_ask(struct pt_regs *ctx)
{
	return UNPREEMPTED(ask((void *)PT_REGS_PARM1(ctx), (void *)PT_REGS_PARM2(ctx),
			       PT_REGS_PARM3(ctx), PT_REGS_PARM4(ctx), SIXTH_ARGUMENT(ctx)));
}

/* What a handle that is handed over is to read. It may have been noted when it was asked for, since
 * the task handed over others. Not static, so that the verifier looks at it once for all. */
__noinline int note_handle(__u32 task_index, __u64 handle, __u64 now, __u64 query)
{
	struct pgt_task *task = task_at(task_index);
	struct pgt_blocks blocks = {};
	struct handle_begin begin = {};
	__u32 shift;

	shift = task ? asked_shift(task) : 0;
	if (!shift || bpf_probe_read_user(&begin, sizeof(begin), (void *)handle) ||
	    begin.operation != READ)
		return 0;
	handle += live.handles[task->server & (SERVERS - 1)].place;
	if (!bpf_probe_read_user(&blocks, sizeof(blocks), (void *)handle))
		note(task, &blocks, shift, task->charge.submitted_ns, now, query);
	return 0;
}

static __always_inline int submit(__u32 number, __u64 *staged)
{
	struct pgt_task *task = traced_task();
	__u64 now, query, handle = 0;
	__u32 i;

	if (!task || !asked_shift(task))
		return 0;
	now = bpf_ktime_get_ns();
	task->charge.asks = 1;
	if (task->charge.expected)
		task->charge.doubted = 1; /* it is handed over all the same */
	task->charge.expected = 0;
	if (is_submitted(&live.handles[task->server & (SERVERS - 1)])) {
		query = charged_query(task, now);
		for (i = 0; i < BATCH && i < (number & 0xffff); i++)
			if (!bpf_probe_read_user(&handle, sizeof(handle), &staged[i]))
				note_handle(task->index, handle, now, query);
	}
	task->charge.submitted_ns = now;
	return 0;
}

/* submit(uint16 num_staged_ios, PgAioHandle **staged_ios) of pgaio_worker_ops, in the backend that
 * asked. What that makes itself does not come by here: of queries that look up single rows, all. */
SEC("uprobe")
int pgt_a_submit(struct pt_regs *ctx)
{
	return UNPREEMPTED(submit(PT_REGS_PARM1(ctx), (void *)PT_REGS_PARM2(ctx)));
}

static __always_inline int begin_wait(void)
{
	struct pgt_task *task = traced_task();

	if (task)
		task->wait_start_ns = bpf_ktime_get_ns();
	return 0;
}

static __always_inline int end_wait(void)
{
	struct pgt_task *task = begun_task();

	if (!task || !task->wait_start_ns)
		return 0;
	task->query.waited_ns += bpf_ktime_get_ns() - task->wait_start_ns;
	task->wait_start_ns = 0;
	return 0;
}

/* pgaio_wref_wait(PgAioWaitRef *iow): called where a read is not there yet */
SEC("uprobe")
int pgt_a_wait(struct pt_regs *ctx)
{
	return UNPREEMPTED(begin_wait());
}

SEC("uprobe")
int pgt_a_wait_ret(struct pt_regs *ctx)
{
	return UNPREEMPTED(end_wait());
}
