// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The end of a thread. Behind read_probes.bpf.c: programs are loaded in the order of their
 * sections, and where fentry is not permitted that is to be seen before others were verified. */

#include "light.bpf.h"
#include "requests.bpf.h"
#include "tasks.bpf.h"
#include "times.bpf.h"

/* Before the pid can be another's; before the children of a postmaster have another parent. */
SEC("raw_tracepoint")
int pgt_exit(void *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct pgt_leader_key leader = {};
	__u32 tid = id, *found;
	struct pgt_task *task;

	if (tid == id >> 32 && is_postmaster(tid))
		live.orphans = 1;
	if (tid != id >> 32)
		bpf_map_delete_elem(&pgt_executors, &tid);
	found = bpf_map_lookup_elem(&pgt_indexes, &tid);
	if (!found)
		return 0;
	task = bpf_map_lookup_elem(&pgt_tasks, found);
	if (task) {
		if (options.light)
			learn_at_exit(task);
		task->exit_code = exit_code();
		task->ended_ns = bpf_ktime_get_ns();
		if (options.times && !task->ignored)
			settle_times(task, task->ended_ns, query_of(task, task->ended_ns));
		leader.postmaster = task->postmaster;
		leader.inner_tgid = task->inner_tgid;
		bpf_map_delete_elem(&pgt_leaders, &leader);
	}
	bpf_map_delete_elem(&pgt_indexes, &tid);
	return 0;
}
