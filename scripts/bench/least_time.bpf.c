// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What no program at the switch of tasks can go below that knows where the time of a server's
 * processes goes, and for which statement: it finds the task, looks at what that waits for and
 * which statement it runs, and adds to three sums. It counts no histogram and no statement, and
 * knows of one server, whose processes begin and end with none of the care that they need. */
#include "../../bpf/kernel.bpf.h"

#define PLACES 4096

const volatile struct {
	__u64 entry;	/* where in the server's processes MyBEEntry is, */
	__u64 wait;	/* and my_wait_event_info */
	__u32 query_id; /* about where in a PgBackendStatus its query id is */
	__u32 postmaster;
} server SEC(".rodata.server");

__u64 known_parent;

/* A line of a CPU's cache. */
struct sums {
	__u64 in_ns;
	__u64 out_ns;
	__u64 run_delay;
	__u64 on_cpu;
	__u64 run_queue;
	__u64 sleep;
	__u64 query_id;
	__u32 event;
	__u32 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PLACES);
	__type(key, __u32);
	__type(value, struct sums);
} pgt_sums SEC(".maps");

static __always_inline struct sums *sums_of(__u32 tid)
{
	__u32 place = tid & (PLACES - 1);

	return bpf_map_lookup_elem(&pgt_sums, &place);
}

static __always_inline void leave(bool preempted)
{
	struct sums *sums = sums_of(bpf_get_current_pid_tgid());
	__u64 pointer = 0, now, delay, gap;

	if (!sums)
		return;
	now = bpf_ktime_get_ns();
	delay = run_delay();
	if (sums->out_ns && sums->in_ns > sums->out_ns) {
		gap = sums->in_ns - sums->out_ns;
		sums->run_queue += delay - sums->run_delay;
		sums->sleep += gap - (delay - sums->run_delay);
	}
	if (sums->in_ns)
		sums->on_cpu += now - sums->in_ns;
	sums->event = 0;
	if (!preempted && task_state()) {
		bpf_probe_read_user(&pointer, sizeof(pointer), (void *)server.wait);
		bpf_probe_read_user(&sums->event, sizeof(sums->event), (void *)pointer);
	}
	bpf_probe_read_user(&pointer, sizeof(pointer), (void *)server.entry);
	bpf_probe_read_user(&sums->query_id, sizeof(sums->query_id),
			    (void *)pointer + server.query_id);
	sums->run_delay = delay;
	sums->out_ns = now;
}

SEC("raw_tracepoint")
int pgt_sr_switch(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *next = (void *)ctx->args[2];
	struct sums *sums;

	if (!known_parent && parent_tgid() == server.postmaster)
		known_parent = parent();
	if (parent() == known_parent)
		leave(ctx->args[0]);
	if ((__u64)BPF_CORE_READ(next, real_parent) != known_parent)
		return 0;
	sums = sums_of(BPF_CORE_READ(next, pid));
	if (sums)
		sums->in_ns = bpf_ktime_get_ns();
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
