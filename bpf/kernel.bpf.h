/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The kernel as pgtrace sees it: the fields it reads, found by CO-RE in whatever kernel
 * runs, and what differs between kernels, each with its reason. */
#ifndef KERNEL_BPF_H
#define KERNEL_BPF_H

#include <stdbool.h>
#include <linux/bpf.h>
#include <linux/types.h>
#include <asm/ptrace.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct super_block {
	__u32 s_dev;
	unsigned long s_magic;
	struct block_device *s_bdev;
};

struct inode {
	unsigned short i_mode;
	unsigned long i_ino;
	__u32 i_generation;
	struct super_block *i_sb;
};

struct qstr {
	const unsigned char *name;
};

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
	struct inode *d_inode;
};

struct path {
	struct dentry *dentry;
};

struct file_ra_state {
	unsigned int ra_pages;
};

struct file {
	struct inode *f_inode;
	unsigned int f_flags;
	long long f_pos;
	struct path f_path;
	struct file_ra_state f_ra;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct task_io_accounting {
	__u64 read_bytes;
};

struct mm_struct {
	unsigned long arg_start;
};

struct pid_namespace;

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

struct task_struct {
	int tgid;
	int exit_code;
	unsigned long nvcsw;
	__u64 start_time;
	struct task_io_accounting ioac;
	struct files_struct *files;
	struct task_struct *real_parent;
	struct mm_struct *mm;
	struct pid *thread_pid;
};

struct io_ring_ctx;

struct io_cqe {
	int fd;
};

struct io_kiocb {
	struct file *file;
	__u8 opcode;
	struct io_cqe cqe;
};

struct kiocb {
	long long ki_pos;
};

struct io_rw {
	struct kiocb kiocb;
	__u64 addr;
	__u32 len;
};

struct trace_event_raw_io_uring_submit_req {
	struct io_kiocb *req;
};

/* Its name before 6.3 (2ad57931db64, "io_uring: rename trace_io_uring_submit_sqe() tracepoint") */
struct trace_event_raw_io_uring_submit_sqe {
	struct io_kiocb *req;
};

struct trace_event_raw_io_uring_complete {
	void *req;
	int res;
};

#pragma clang attribute pop

/* The context of system-call tracepoints: their format is part of the kernel's interface
 * (include/trace/events/syscalls.h). A program may only read the arguments that the call
 * has: the verifier's limit is the tracepoint's own size. */
struct syscall_enter {
	__u64 common;
	__u64 number;
	__u64 args[6];
};

struct syscall_exit {
	__u64 common;
	__u64 number;
	__s64 ret;
};

/* How the kernel calls the function that a system call is, with the registers as argument */
#if defined(__TARGET_ARCH_arm64)
#define SYSCALL "__arm64_sys_"
#else
#define SYSCALL "__x64_sys_"
#endif

/* Of a function of a user's program; <bpf/bpf_tracing.h> has it from libbpf 1.2 on */
#if defined(__TARGET_ARCH_arm64)
#define SIXTH_ARGUMENT(ctx) (((struct user_pt_regs *)(ctx))->regs[5])
#else
#define SIXTH_ARGUMENT(ctx) ((ctx)->r9)
#endif

/* From where a function of a user's program is called that has just been entered, counted from
 * there: in every process that runs the program the same. */
static __always_inline __u64 call_site(struct pt_regs *ctx)
{
	__u64 address = 0;

#if defined(__TARGET_ARCH_arm64)
	address = ((struct user_pt_regs *)ctx)->regs[30];
#else
	bpf_probe_read_user(&address, sizeof(address), (void *)PT_REGS_SP(ctx));
#endif
	return address - PT_REGS_IP(ctx);
}

struct iovec {
	__u64 base;
	__u64 length;
};

#define S_IFMT	0170000
#define S_IFREG 0100000
#define S_IFDIR 0040000
/* include/uapi/asm-generic/fcntl.h; arm64 has its own */
#if defined(__TARGET_ARCH_arm64)
#define O_DIRECT 0200000
#else
#define O_DIRECT 00040000
#endif
#define O_DSYNC 00010000 /* a bit of O_SYNC too */

/* include/uapi/linux/magic.h, and the file systems' own sources for ZFS and SMB */
#define BTRFS_SUPER_MAGIC     0x9123683E
#define CEPH_SUPER_MAGIC      0x00c36400
#define FUSE_SUPER_MAGIC      0x65735546
#define NFS_SUPER_MAGIC	      0x6969
#define OVERLAYFS_SUPER_MAGIC 0x794c7630
#define RAMFS_MAGIC	      0x858458f6
#define SMB2_SUPER_MAGIC      0xFE534D42
#define TMPFS_MAGIC	      0x01021994
#define V9FS_MAGIC	      0x01021997
#define ZFS_SUPER_MAGIC	      0x2fc12fc1

/* The current task's counters. Since 5.11 (3ca1032ab7ab, "bpf: Implement
 * get_current_task_btf and RET_PTR_TO_BTF_ID") they can be loaded directly; before, each
 * costs a call. */
struct counters {
	__u64 read_bytes;
	__u64 switches;
};

static __always_inline bool has_task_btf(void)
{
	return bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_get_current_task_btf);
}

static __always_inline bool has_io_accounting(void)
{
	struct task_struct *task = NULL;

	return bpf_core_field_exists(task->ioac.read_bytes);
}

static __always_inline struct counters current_counters(void)
{
	struct counters counters = {};
	struct task_struct *task;

	if (has_task_btf()) {
		task = (void *)bpf_get_current_task_btf();
		counters.switches = task->nvcsw;
		if (has_io_accounting())
			counters.read_bytes = task->ioac.read_bytes;
	} else {
		task = (void *)bpf_get_current_task();
		counters.switches = BPF_CORE_READ(task, nvcsw);
		if (has_io_accounting())
			counters.read_bytes = BPF_CORE_READ(task, ioac.read_bytes);
	}
	return counters;
}

/* The thread group of the current task's parent: of a backend, its postmaster. */
static __always_inline __u32 parent_tgid(void)
{
	struct task_struct *task;

	if (has_task_btf()) {
		task = (void *)bpf_get_current_task_btf();
		return task->real_parent->tgid;
	}
	task = (void *)bpf_get_current_task();
	return BPF_CORE_READ(task, real_parent, tgid);
}

/* The current thread's number in its own PID namespace, the innermost. */
static __always_inline __u32 inner_tid(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct pid *pid = BPF_CORE_READ(task, thread_pid);
	struct upid number = {};
	__u64 offset = __builtin_preserve_field_info(pid->numbers, BPF_FIELD_BYTE_OFFSET);

	offset += BPF_CORE_READ(pid, level) * sizeof(struct upid);
	bpf_probe_read_kernel(&number, sizeof(number), (void *)pid + offset);
	return number.nr;
}

/* Of the current task, which ends. */
static __always_inline __u32 exit_code(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	return BPF_CORE_READ(task, exit_code);
}

/* What `ps` shows: PostgreSQL writes its title over its arguments. */
static __always_inline void read_title(char *title, __u32 size)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	bpf_probe_read_user_str(title, size, (void *)BPF_CORE_READ(task, mm, arg_start));
}

/* A number of which the compiler assumes nothing. It may otherwise make of an index an offset
 * from before the start of a map's value, and 7.2's verifier refuses such an address even if
 * what is added to it leads back ("unbounded memory access"); 6.12's does not. */
static __always_inline __u32 opaque(__u32 number)
{
	asm volatile("" : "+r"(number));
	return number;
}

static __always_inline struct file *current_file(__u32 fd)
{
	struct task_struct *task;
	struct fdtable *table;
	struct file **files, *file = NULL;

	if (has_task_btf()) {
		task = (void *)bpf_get_current_task_btf();
		table = task->files->fdt;
		if (fd >= table->max_fds)
			return NULL;
		files = table->fd;
	} else {
		task = (void *)bpf_get_current_task();
		table = BPF_CORE_READ(task, files, fdt);
		if (fd >= BPF_CORE_READ(table, max_fds))
			return NULL;
		files = BPF_CORE_READ(table, fd);
	}
	bpf_probe_read_kernel(&file, sizeof(file), &files[fd]);
	return file;
}

#endif
