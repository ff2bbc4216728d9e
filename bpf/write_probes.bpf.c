// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The three probe types for writes, as read_probes.bpf.c has them for reads. */

#include "charge.bpf.h"
#include "reads.bpf.h"
#include "writes.bpf.h"

/* Way 1: the tracepoints of the system calls. */

/* write and writev */
SEC("tracepoint")
int pgt_tpw_write(struct syscall_enter *ctx)
{
	struct pgt_task *task = traced_task();
	struct file *file;

	if (!task)
		return 0;
	file = current_file(ctx->args[0]);
	return write_enter(task, file, OP_WRITE, asked_of(ctx, NR_WRITE),
			   file ? BPF_CORE_READ(file, f_pos) : 0);
}

/* pwrite64, pwritev and pwritev2; this one with position -1 writes where the file stands */
SEC("tracepoint")
int pgt_tpw_pwrite(struct syscall_enter *ctx)
{
	struct pgt_task *task = traced_task();
	__u64 position = ctx->args[3];
	struct file *file;

	if (!task)
		return 0;
	file = current_file(ctx->args[0]);
	if (position == NOWHERE && file)
		position = BPF_CORE_READ(file, f_pos);
	return write_enter(task, file, OP_WRITE, asked_of(ctx, NR_PWRITE64), position);
}

SEC("tracepoint")
int pgt_tpw_exit(struct syscall_exit *ctx)
{
	return write_exit(false, ctx->ret);
}

/* Ways 2 and 3: the kernel functions that the system calls end in. */

static __always_inline int vfs_write_enter(struct file *file, __u64 asked, const __u64 *position)
{
	struct pgt_task *task = traced_task();
	__u64 at = 0;

	if (!task)
		return 0;
	bpf_probe_read_kernel(&at, sizeof(at), position);
	return write_enter(task, file, OP_WRITE, asked, at);
}

static __always_inline int vfs_write_enter_vector(struct file *file, const struct iovec *vector,
						  __u64 count, const __u64 *position)
{
	struct pgt_task *task = traced_task();
	__u64 at = 0;

	if (!task)
		return 0;
	bpf_probe_read_kernel(&at, sizeof(at), position);
	return write_enter(task, file, OP_WRITE, length_of_vector(task, vector, count), at);
}

SEC("kprobe/vfs_write")
int BPF_KPROBE(pgt_kw_write, struct file *file, void *buffer, __u64 count, __u64 *position)
{
	return vfs_write_enter(file, count, position);
}

SEC("kprobe/vfs_writev")
int BPF_KPROBE(pgt_kw_writev, struct file *file, struct iovec *vector, __u64 count, __u64 *position)
{
	return vfs_write_enter_vector(file, vector, count, position);
}

SEC("kretprobe/vfs_write")
int BPF_KRETPROBE(pgt_kw_write_exit, __s64 ret)
{
	return write_exit(false, ret);
}

SEC("kretprobe/vfs_writev")
int BPF_KRETPROBE(pgt_kw_writev_exit, __s64 ret)
{
	return write_exit(false, ret);
}

SEC("fentry/vfs_write")
int BPF_PROG(pgt_fw_write, struct file *file, void *buffer, __u64 count, __u64 *position)
{
	return vfs_write_enter(file, count, position);
}

SEC("fentry/vfs_writev")
int BPF_PROG(pgt_fw_writev, struct file *file, struct iovec *vector, __u64 count, __u64 *position)
{
	return vfs_write_enter_vector(file, vector, count, position);
}

SEC("fexit/vfs_write")
int BPF_PROG(pgt_fw_write_exit, struct file *file, void *buffer, __u64 count, __u64 *position,
	     __s64 ret)
{
	return write_exit(false, ret);
}

SEC("fexit/vfs_writev")
int BPF_PROG(pgt_fw_writev_exit, struct file *file, struct iovec *vector, __u64 count,
	     __u64 *position, int flags, __s64 ret)
{
	return write_exit(false, ret);
}
