// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* PostgreSQL 18's asynchronous I/O: reads that an I/O worker performs are charged to the backend
 * that asked, and to the query that it ran then. */

#include "charge.bpf.h"
#include "files.bpf.h"
#include "charged_query.bpf.h"
#include "reads.bpf.h"
#include "tasks.bpf.h"
#include "user_arguments.bpf.h"

struct pgt_handle_key {
	__u64 handle; /* PgAioHandle *, in shared memory: the same in every process */
	__u32 postmaster;
	__u32 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, struct pgt_handle_key);
	__type(value, struct pgt_handle);
} pgt_handles SEC(".maps");

/* Where io_uring performs, the order is that of its submissions, and where nobody does, that of
 * the system calls. */
static __always_inline bool has_io_workers(struct pgt_task *task)
{
	__u32 place = place_of(task->postmaster);

	return place < SERVERS && live.io_workers[place & (SERVERS - 1)];
}

/* smgrstartreadv(PgAioHandle *ioh, SMgrRelation reln, ForkNumber forknum, BlockNumber blocknum,
 * void **buffers, BlockNumber nblocks) */
SEC("uprobe")
int pgt_a_blocks(struct pt_regs *ctx)
{
	struct pgt_task *task = traced_task();

	if (task)
		task->asked_blocks = SIXTH_ARGUMENT(ctx);
	return 0;
}

/* pgaio_io_start_readv(PgAioHandle *ioh, int fd, int iovcnt, uint64 offset), in the backend that
 * asks: before it is known who will read. The order of these calls is that of the scan. Where its
 * probe is put, the second argument may be in memory: then there is a cookie. */
SEC("uprobe")
int BPF_KPROBE(pgt_a_start, void *ioh, int fd, int count, __u64 position)
{
	struct pgt_task *task = traced_task();
	struct pgt_handle_key key = {.handle = (__u64)ioh};
	struct pgt_handle handle = {};
	struct file *file;
	__u64 cookie;

	if (!task || !has_io_workers(task))
		return 0;
	cookie = options.cookies ? bpf_get_attach_cookie(ctx) : 0;
	if (cookie)
		fd = value_at(ctx, cookie);
	handle.pattern = PATTERN_UNKNOWN;
	file = current_file(fd);
	if (file && find_file(task, file))
		handle.pattern = pattern_of(task, &task->files[task->file & (FILES - 1)], false,
					    position, task->asked_blocks << options.block_shift);
	key.postmaster = task->postmaster;
	handle.charged_to = task->serial;
	handle.query = charged_query(task);
	handle.asked_ns = bpf_ktime_get_ns();
	bpf_map_update_elem(&pgt_handles, &key, &handle, BPF_ANY);
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

/* pgaio_io_perform_synchronously(PgAioHandle *ioh), in whoever makes the system call: one */
SEC("uprobe")
int BPF_KPROBE(pgt_a_perform, void *ioh)
{
	struct pgt_task *task = traced_task();
	struct pgt_handle_key key = {.handle = (__u64)ioh};
	struct pgt_handle *handle;

	if (!task)
		return 0;
	key.postmaster = task->postmaster;
	task->charge.charged_to = 0;
	task->charge.known = 0;
	handle = bpf_map_lookup_elem(&pgt_handles, &key);
	if (!handle)
		return 0;
	task->charge.pattern = handle->pattern;
	task->charge.known = 1;
	if (handle->charged_to == task->serial)
		return 0;
	task->charge.query = handle->query;
	task->charge.queued_ns = bpf_ktime_get_ns() - handle->asked_ns;
	task->charge.charged_to = handle->charged_to;
	return 0;
}
