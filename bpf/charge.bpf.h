/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Is this task traced, and where is what is known of it? */
#ifndef CHARGE_BPF_H
#define CHARGE_BPF_H

/* Set before the programs are loaded, so that the verifier drops what is not asked for. */
const volatile struct options options SEC(".rodata.options");

/* How many slots and chunks were ever taken. */
struct taken taken SEC(".data.taken");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct task);
} pgt_tasks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);   /* thread id */
	__type(value, __u32); /* index in pgt_tasks */
} pgt_indexes SEC(".maps");

/* Without a target this thread leaves on the first comparison. */
static __always_inline struct task *traced_task(__u32 *index)
{
	__u32 tid = bpf_get_current_pid_tgid();
	__u32 *found;

	*index = 0;
	if (options.only_tid) {
		if (tid != options.only_tid)
			return NULL;
	} else {
		found = bpf_map_lookup_elem(&pgt_indexes, &tid);
		if (!found)
			return NULL;
		*index = *found;
	}
	return bpf_map_lookup_elem(&pgt_tasks, index);
}

#endif
