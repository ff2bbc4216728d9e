// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What no program at the switch of tasks can go below that knows where the time of a server's
 * processes goes, and for which statement: it finds the task, looks at what that waits for and
 * which statement it runs, and adds to three sums; or, if asked for, to a histogram of each, by
 * statement. It knows of one server, whose processes begin and end with none of the care that they
 * need. */
#include "../../bpf/histogram.bpf.h"
#include "../../bpf/kernel.bpf.h"

#define OF_THREADS 4096
#define STATEMENTS 16384

const volatile struct {
	__u64 entry;	/* where in the server's processes MyBEEntry is, */
	__u64 wait;	/* and my_wait_event_info */
	__u32 query_id; /* about where in a PgBackendStatus its query id is */
	__u32 postmaster;
	__u32 by_statement;
	__u32 unused;
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

#define MEASURED (SLEEP + 1)

struct statement {
	__u64 tid;
	__u64 query_id;
};

struct histograms {
	__u64 total_ns[MEASURED];
	__u32 count[MEASURED][64]; /* by the power of two */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, STATEMENTS);
	__type(key, struct statement);
	__type(value, struct histograms);
} pgt_histograms SEC(".maps");

const struct histograms empty;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, OF_THREADS);
	__type(key, __u32);
	__type(value, struct sums);
} pgt_sums SEC(".maps");

static __always_inline struct sums *sums_of(__u32 tid)
{
	__u32 place = tid & (OF_THREADS - 1);

	return bpf_map_lookup_elem(&pgt_sums, &place);
}

static __always_inline struct histograms *histograms_of(__u64 query_id)
{
	struct statement key = {.tid = (__u32)bpf_get_current_pid_tgid(), .query_id = query_id};
	struct histograms *found = bpf_map_lookup_elem(&pgt_histograms, &key);

	if (found)
		return found;
	bpf_map_update_elem(&pgt_histograms, &key, &empty, BPF_NOEXIST);
	return bpf_map_lookup_elem(&pgt_histograms, &key);
}

static __always_inline void count(struct histograms *of, __u32 kind, __u64 ns)
{
	of->total_ns[kind] += ns;
	of->count[kind][log2_u64(ns) & 63]++;
}

/* What of a gap was waiting for a CPU was seen from what the kernel had counted until then. */
static __always_inline void settle(struct sums *sums, __u64 now, __u64 queued, __u64 query_id)
{
	__u64 gap = 0, ran = sums->in_ns ? now - sums->in_ns : 0;
	struct histograms *of;

	if (sums->out_ns && sums->in_ns > sums->out_ns)
		gap = sums->in_ns - sums->out_ns;
	if (queued > gap)
		queued = gap;
	if (!server.by_statement) {
		sums->run_queue += queued;
		sums->sleep += gap - queued;
		sums->on_cpu += ran;
		return;
	}
	of = histograms_of(sums->query_id);
	if (of && gap) {
		count(of, RUN_QUEUE, queued);
		count(of, SLEEP, gap - queued);
	}
	if (query_id != sums->query_id)
		of = histograms_of(query_id);
	if (of)
		count(of, ON_CPU, ran);
}

static __always_inline void leave(bool preempted)
{
	struct sums *sums = sums_of(bpf_get_current_pid_tgid());
	__u64 pointer = 0, query_id = 0, now, delay;
	__u32 event = 0;

	if (!sums)
		return;
	now = bpf_ktime_get_ns();
	delay = run_delay();
	if (!preempted && task_state()) {
		bpf_probe_read_user(&pointer, sizeof(pointer), (void *)server.wait);
		bpf_probe_read_user(&event, sizeof(event), (void *)pointer);
	}
	bpf_probe_read_user(&pointer, sizeof(pointer), (void *)server.entry);
	bpf_probe_read_user(&query_id, sizeof(query_id), (void *)pointer + server.query_id);
	settle(sums, now, delay - sums->run_delay, query_id);
	sums->query_id = query_id;
	sums->event = event;
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
