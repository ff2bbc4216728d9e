/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The fields of the kernel that pgtrace reads, found by CO-RE in whatever kernel runs, and its
 * constants. */
#ifndef KERNEL_TYPES_BPF_H
#define KERNEL_TYPES_BPF_H

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
	unsigned long start; /* of the window that was asked for last, in pages */
	unsigned int size;
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

struct sched_info {
	unsigned long long run_delay;
	unsigned long long last_arrival;
};

/* Its clocks differ by what interrupts and the hypervisor took */
struct rq {
	__u64 clock;
	__u64 clock_task;
	struct task_struct *curr;
};

struct cfs_rq {
	struct rq *rq; /* with CONFIG_FAIR_GROUP_SCHED */
};

struct sched_entity {
	struct cfs_rq *cfs_rq;
};

struct task_struct {
	unsigned int flags;
	int pid;
	struct sched_entity se;
	unsigned int __state;
	struct sched_info sched_info;
	int tgid;
	int exit_code;
	unsigned long jobctl;
	unsigned long nvcsw;
	__u64 start_time;
	struct task_io_accounting ioac;
	struct files_struct *files;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	struct mm_struct *mm;
	struct pid *thread_pid;
};

/* Before 5.14 (2f064a59a11f, "sched: Change task_struct::state") */
struct task_struct___before_5_14 {
	long state;
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
	__u32 number;
	__u32 unused;
	__u64 args[6];
};

struct syscall_exit {
	__u64 common;
	__u64 number;
	__s64 ret;
};

/* How the kernel calls the function that a system call is, with the registers as argument; and the
 * numbers of some: of arm64 as in include/uapi/asm-generic/unistd.h. */
#if defined(__TARGET_ARCH_arm64)
#define SYSCALL	     "__arm64_sys_"
#define NR_READ	     63
#define NR_WRITE     64
#define NR_PREAD64   67
#define NR_PWRITE64  68
#define NR_FSYNC     82
#define NR_FDATASYNC 83
#else
#define SYSCALL	     "__x64_sys_"
#define NR_READ	     0
#define NR_WRITE     1
#define NR_PREAD64   17
#define NR_PWRITE64  18
#define NR_FSYNC     74
#define NR_FDATASYNC 75
#endif

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
#define CIFS_SUPER_MAGIC      0xFF534D42 /* of SMB2 and 3 as well, but for what statfs() says */
#define FUSE_SUPER_MAGIC      0x65735546
#define NFS_SUPER_MAGIC	      0x6969
#define OVERLAYFS_SUPER_MAGIC 0x794c7630
#define RAMFS_MAGIC	      0x858458f6
#define SMB2_SUPER_MAGIC      0xFE534D42
#define TMPFS_MAGIC	      0x01021994
#define V9FS_MAGIC	      0x01021997
#define ZFS_SUPER_MAGIC	      0x2fc12fc1

#endif
