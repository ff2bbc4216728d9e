// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The end of a thread. Behind read_probes.bpf.c: programs are loaded in the order of their
 * sections, and where fentry is not permitted that is to be seen before others were verified. */

#include "booking.bpf.h"
#include "requests.bpf.h"
#include "tasks.bpf.h"
#include "times.bpf.h"

/* Before the pid can be another's; before the children of a postmaster have another parent. */
SEC("raw_tracepoint")
int pgt_exit(void *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct pgt_leader_key leader = {};
	struct pgt_task *task;
	__u32 tid = id, index;
	__u64 now;

	if (tid == id >> 32 && is_postmaster(tid))
		live.orphans = 1;
	if (tid != id >> 32)
		bpf_map_delete_elem(&pgt_executors, &tid);
	if (!find_index(tid, &index))
		return 0;
	task = task_at(index);
	if (task) {
		if (options.light)
			learn_at_exit(task);
		else if (options.times)
			know_own_start(task); /* it may have read nothing */
		task->exit_code = exit_code();
		now = bpf_ktime_get_ns();
		if (options.times && !task->ignored)
			settle_times(task->index, now, query_of(task, now, true));
		/* Last: user space takes it for the end of all that is counted */
		store_barrier();
		task->ended_ns = now;
		leader.postmaster = task->postmaster;
		leader.inner_tgid = task->inner_tgid;
		bpf_map_delete_elem(&pgt_leaders, &leader);
	}
	forget_index(tid);
	return 0;
}
