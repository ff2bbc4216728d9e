// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Calls that change a PgBackendStatus, as samples: what they have written before tells user space
 * where in it that stands. Attached until it knows. */

#include "preemption.bpf.h"
#include "samples.bpf.h"
#include "tasks.bpf.h"

#define OF_A_THREAD 12 /* samples at most in a round: consecutive ones tell most */

struct pgt_reports {
	__u32 number;
	__u32 round;
	__u32 left; /* to be sampled in this round */
};

/* By thread. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct pgt_reports);
} pgt_reports SEC(".maps");

/* Counts a call of a thread. Returns whether to take a sample: of few threads in each round, as a
 * busy server reports faster than anybody can look at. */
static __always_inline bool is_chosen(struct pgt_memory *memory, __u32 tid, __u32 *number)
{
	struct pgt_reports reports = {}, *known = bpf_map_lookup_elem(&pgt_reports, &tid);
	bool chosen;

	if (known) {
		reports = *known;
		reports.number++;
	}
	if (!known || reports.round != memory->round) {
		reports.round = memory->round;
		reports.left = 0;
		if (memory->sampled > 0) {
			memory->sampled--; /* of two at once perhaps by one alone */
			reports.left = OF_A_THREAD;
		}
	}
	chosen = reports.left;
	if (chosen)
		reports.left--;
	*number = reports.number;
	bpf_map_update_elem(&pgt_reports, &tid, &reports, BPF_ANY);
	return chosen;
}

static __always_inline int take_sample(__u32 of_id, __u64 argument, __u32 flag)
{
	__u32 postmaster = parent_tgid(), place = place_of(postmaster);
	__u32 tid = bpf_get_current_pid_tgid(), number;
	struct pgt_memory *memory;
	__u64 entry = 0;

	if (place >= SERVERS)
		return 0;
	memory = &live.memory[place & (SERVERS - 1)];
	if (!is_chosen(memory, tid, &number))
		return 0;
	bpf_probe_read_user(&entry, sizeof(entry), (void *)memory->entry);
	if (!entry)
		return 0;
	return send_sample(postmaster, entry, number, of_id, argument, flag);
}

/* pgstat_report_activity(BackendState state, const char *cmd_str) */
SEC("uprobe")
int pgt_l_activity(struct pt_regs *ctx)
{
	return UNPREEMPTED(take_sample(0, (__u32)PT_REGS_PARM1(ctx), !!PT_REGS_PARM2(ctx)));
}

/* pgstat_report_query_id(uint64 query_id, bool force) */
SEC("uprobe")
int pgt_l_query_id(struct pt_regs *ctx)
{
	return UNPREEMPTED(take_sample(1, PT_REGS_PARM1(ctx), (bool)PT_REGS_PARM2(ctx)));
}
