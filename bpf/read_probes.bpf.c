// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The three probe types for reads: thin entries and exits, to the one handler in reads.bpf.c. */

#include "charge.bpf.h"
#include "reads.bpf.h"

/* Way 1: the tracepoints of the system calls. Two programs, since none may read an argument that
 * its call does not have; not one for each call, since the verifier takes its time for each. */

/* read and readv */
SEC("tracepoint")
int pgt_tp_read(struct syscall_enter *ctx)
{
	struct pgt_task *task = traced_task();
	struct file *file;

	if (!task)
		return 0;
	file = current_file(ctx->args[0]);
	return read_enter(task, file, asked_of(ctx, NR_READ),
			  file ? BPF_CORE_READ(file, f_pos) : 0);
}

/* pread64, preadv and preadv2; this one with position -1 reads where the file stands */
SEC("tracepoint")
int pgt_tp_pread(struct syscall_enter *ctx)
{
	struct pgt_task *task = traced_task();
	__u64 position = ctx->args[3];
	struct file *file;

	if (!task)
		return 0;
	file = current_file(ctx->args[0]);
	if (position == NOWHERE && file)
		position = BPF_CORE_READ(file, f_pos);
	return read_enter(task, file, asked_of(ctx, NR_PREAD64), position);
}

SEC("tracepoint")
int pgt_tp_exit(struct syscall_exit *ctx)
{
	return read_exit(ctx->ret);
}

/* Ways 2 and 3: the kernel functions that the system calls end in. */

static __always_inline int vfs_enter(struct file *file, __u64 asked, const __u64 *position)
{
	struct pgt_task *task = traced_task();
	__u64 at = 0;

	if (!task)
		return 0;
	bpf_probe_read_kernel(&at, sizeof(at), position);
	return read_enter(task, file, asked, at);
}

static __always_inline int vfs_enter_vector(struct file *file, const struct iovec *vector,
					    __u64 count, const __u64 *position)
{
	struct pgt_task *task = traced_task();
	__u64 at = 0;

	if (!task)
		return 0;
	bpf_probe_read_kernel(&at, sizeof(at), position);
	return read_enter(task, file, length_of_vector(task, vector, count), at);
}

SEC("kprobe/vfs_read")
int BPF_KPROBE(pgt_k_read, struct file *file, void *buffer, __u64 count, __u64 *position)
{
	return vfs_enter(file, count, position);
}

SEC("kprobe/vfs_readv")
int BPF_KPROBE(pgt_k_readv, struct file *file, struct iovec *vector, __u64 count, __u64 *position)
{
	return vfs_enter_vector(file, vector, count, position);
}

SEC("kretprobe/vfs_read")
int BPF_KRETPROBE(pgt_k_read_exit, __s64 ret)
{
	return read_exit(ret);
}

SEC("kretprobe/vfs_readv")
int BPF_KRETPROBE(pgt_k_readv_exit, __s64 ret)
{
	return read_exit(ret);
}

SEC("fentry/vfs_read")
int BPF_PROG(pgt_f_read, struct file *file, void *buffer, __u64 count, __u64 *position)
{
	return vfs_enter(file, count, position);
}

SEC("fentry/vfs_readv")
int BPF_PROG(pgt_f_readv, struct file *file, struct iovec *vector, __u64 count, __u64 *position)
{
	return vfs_enter_vector(file, vector, count, position);
}

SEC("fexit/vfs_read")
int BPF_PROG(pgt_f_read_exit, struct file *file, void *buffer, __u64 count, __u64 *position,
	     __s64 ret)
{
	return read_exit(ret);
}

SEC("fexit/vfs_readv")
int BPF_PROG(pgt_f_readv_exit, struct file *file, struct iovec *vector, __u64 count,
	     __u64 *position, int flags, __s64 ret)
{
	return read_exit(ret);
}
