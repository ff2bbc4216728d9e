// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The three probe types for fsync, fdatasync and sync_file_range, to the handler in writes.bpf.c.
 */

#include "charge.bpf.h"
#include "writes.bpf.h"

/* Way 1: the tracepoints of the system calls. */

SEC("tracepoint")
int pgt_tps_fsync(struct syscall_enter *ctx)
{
	struct pgt_task *task = traced_task();
	__u32 operation = OP_SYNC_FILE_RANGE;

	if (!task)
		return 0;
	if (ctx->number == NR_FSYNC)
		operation = OP_FSYNC;
	else if (ctx->number == NR_FDATASYNC)
		operation = OP_FDATASYNC;
	return write_enter(task, current_file(ctx->args[0]), operation, 0, 0);
}

SEC("tracepoint")
int pgt_tps_exit(struct syscall_exit *ctx)
{
	return write_exit(true, ctx->ret);
}

/* Ways 2 and 3: the kernel functions that they are. */

/* The system calls' own functions. Of vfs_fsync_range compilers put copies into them: in Debian's
 * 5.10 and 6.1 fdatasync does not call it, in 7.2 neither does fsync. And a write calls it, if its
 * file was opened with O_DSYNC. */
static __always_inline int sync_enter(const struct pt_regs *regs, __u32 operation)
{
	struct pgt_task *task = traced_task();
	unsigned long fd = 0;

	if (!task || bpf_probe_read_kernel(&fd, sizeof(fd), &PT_REGS_PARM1(regs)))
		return 0;
	return write_enter(task, current_file(fd), operation, 0, 0);
}

SEC("kprobe/" SYSCALL "fsync")
int BPF_KPROBE(pgt_ks_fsync, struct pt_regs *regs)
{
	return sync_enter(regs, OP_FSYNC);
}

SEC("kretprobe/" SYSCALL "fsync")
int BPF_KRETPROBE(pgt_ks_fsync_exit, __s64 ret)
{
	return write_exit(true, ret);
}

SEC("kprobe/" SYSCALL "fdatasync")
int BPF_KPROBE(pgt_ks_fdatasync, struct pt_regs *regs)
{
	return sync_enter(regs, OP_FDATASYNC);
}

SEC("kretprobe/" SYSCALL "fdatasync")
int BPF_KRETPROBE(pgt_ks_fdatasync_exit, __s64 ret)
{
	return write_exit(true, ret);
}

SEC("kprobe/" SYSCALL "sync_file_range")
int BPF_KPROBE(pgt_ks_range, struct pt_regs *regs)
{
	return sync_enter(regs, OP_SYNC_FILE_RANGE);
}

SEC("kretprobe/" SYSCALL "sync_file_range")
int BPF_KRETPROBE(pgt_ks_range_exit, __s64 ret)
{
	return write_exit(true, ret);
}

SEC("fentry/" SYSCALL "fsync")
int BPF_PROG(pgt_fs_fsync, const struct pt_regs *regs)
{
	return sync_enter(regs, OP_FSYNC);
}

SEC("fexit/" SYSCALL "fsync")
int BPF_PROG(pgt_fs_fsync_exit, const struct pt_regs *regs, __s64 ret)
{
	return write_exit(true, ret);
}

SEC("fentry/" SYSCALL "fdatasync")
int BPF_PROG(pgt_fs_fdatasync, const struct pt_regs *regs)
{
	return sync_enter(regs, OP_FDATASYNC);
}

SEC("fexit/" SYSCALL "fdatasync")
int BPF_PROG(pgt_fs_fdatasync_exit, const struct pt_regs *regs, __s64 ret)
{
	return write_exit(true, ret);
}

SEC("fentry/" SYSCALL "sync_file_range")
int BPF_PROG(pgt_fs_range, const struct pt_regs *regs)
{
	return sync_enter(regs, OP_SYNC_FILE_RANGE);
}

SEC("fexit/" SYSCALL "sync_file_range")
int BPF_PROG(pgt_fs_range_exit, const struct pt_regs *regs, __s64 ret)
{
	return write_exit(true, ret);
}
