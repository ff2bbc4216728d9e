// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* PostgreSQL 18's asynchronous I/O: reads that an I/O worker performs are charged to the backend
 * that asked, and to the query that it ran then. */

#include "charge.bpf.h"
#include "charged_query.bpf.h"
#include "files.bpf.h"
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

#define HANDED_OUT 1 /* PGAIO_HS_HANDED_OUT */
#define BY_ITSELF  3 /* PGAIO_HF_SYNCHRONOUS and PGAIO_HF_REFERENCES_LOCAL */

/* Whether who asks makes the read itself, and at once: then there is nothing to note for others,
 * and the read finds what it needs. Most reads of a query that looks up single rows are such. Where
 * the handle is not as it was when this was written, or once said so of a read that did not come
 * (an error may have), each is noted. */
static __always_inline bool reads_itself(struct pgt_task *task, struct handle_begin *handle)
{
	struct pgt_charge *charge = &task->charge;
	struct handle_begin begin = {};

	if (charge->expected)
		charge->doubted = 1;
	charge->expected = 0;
	if (charge->doubted || bpf_probe_read_user(&begin, sizeof(begin), handle))
		return false;
	if (begin.state != HANDED_OUT || begin.target || begin.operation)
		return false;
	charge->expected = !!(begin.flags & BY_ITSELF);
	return charge->expected;
}

/* smgrstartreadv(PgAioHandle *ioh, SMgrRelation reln, ForkNumber forknum, BlockNumber blocknum,
 * void **buffers, BlockNumber nblocks), in the backend that asks: before it is known who will read.
 * The order of these calls is that of the scan. One trap tells all that is needed of a read: who
 * performs it is known by the place it reads. */
SEC("uprobe")
int BPF_KPROBE(pgt_a_ask, struct handle_begin *ioh, struct relation_numbers *of, __u32 fork,
	       __u32 block)
{
	struct pgt_task *task = traced_task();
	struct relation_numbers numbers = {};
	struct pgt_asked_key key = {};
	struct pgt_asked asked = {};
	__u32 i, shift;

	shift = task ? asked_shift(task) : 0;
	if (!shift)
		return 0;
	task->charge.asks = 1;
	if (reads_itself(task, ioh) || bpf_probe_read_user(&numbers, sizeof(numbers), of))
		return 0;
	key.relation = identity_of(numbers.database, numbers.relation, letter_of(fork));
	key.position = (__u64)block << (shift & 63);
	key.postmaster = task->postmaster;
	i = find_stream(task, key.relation) & (FILES - 1);
	asked.next = task->streams[i].next;
	asked.forgotten = forgot_some(task);
	asked.length = (__u64)(__u32)SIXTH_ARGUMENT(ctx) << (shift & 63);
	task->streams[i].next = key.position + asked.length;
	asked.charged_to = task->serial;
	asked.asked_ns = bpf_ktime_get_ns();
	asked.query = charged_query(task, asked.asked_ns);
	bpf_map_update_elem(&pgt_asked, &key, &asked, BPF_ANY);
	return 0;
}

/* pgaio_wref_wait(PgAioWaitRef *iow): called where a read is not there yet */
SEC("uprobe")
int pgt_a_wait(struct pt_regs *ctx)
{
	struct pgt_task *task = traced_task();

	if (task)
		task->wait_start_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("uprobe")
int pgt_a_wait_ret(struct pt_regs *ctx)
{
	struct pgt_task *task = traced_task();

	if (!task || !task->wait_start_ns)
		return 0;
	task->query.waited_ns += bpf_ktime_get_ns() - task->wait_start_ns;
	task->wait_start_ns = 0;
	return 0;
}
