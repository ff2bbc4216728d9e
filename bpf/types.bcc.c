// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The kernel's types that kernel.bpf.h reads, for a kernel that has no BTF: bcc compiles this
 * against the kernel's headers, and its BTF takes the place of the kernel's. No line of it runs.
 * Where it lacks a type, the programs that need it cannot be loaded: those of io_uring, whose
 * tracepoints' structures are in no header. */
#include <linux/fdtable.h>
#include <linux/fs.h>
#include <linux/mm_types.h>
#include <linux/pid.h>
#include <linux/sched.h>

#if defined(CONFIG_RANDSTRUCT) || defined(CONFIG_GCC_PLUGIN_RANDSTRUCT)
#error the kernel was built with CONFIG_RANDSTRUCT: its headers do not tell where its fields are
#endif

/* Of enum bpf_func_id no more than this: libbpf's usdt.bpf.h looks there whether probes have
 * cookies, and bcc's own copy of it is not the kernel's. What needs the kernel's own BTF,
 * bpf_get_current_task_btf() in kernel.bpf.h, must not be found. */
#ifdef HAS_ATTACH_COOKIE
enum bpf_func_id___usdt {
	BPF_FUNC_get_attach_cookie___usdt = BPF_FUNC_get_attach_cookie,
};
#endif

/* By value: of what a member points to, BTF has the name alone. */
struct types {
	struct task_struct task_struct;
	struct files_struct files_struct;
	struct fdtable fdtable;
	struct file file;
	struct inode inode;
	struct super_block super_block;
	struct dentry dentry;
	struct mm_struct mm_struct;
	struct pid pid;
#ifdef HAS_ATTACH_COOKIE
	enum bpf_func_id___usdt bpf_func_id;
#endif
};

int types(struct types *ctx)
{
	return 0;
}
