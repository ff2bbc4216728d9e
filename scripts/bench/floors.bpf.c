// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What a tracer cannot go below: programs that do nothing, and programs of pread64 that do only
 * what measuring any time needs. */
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

const volatile __u32 target SEC(".rodata.target");

__u64 started, took;

SEC("tracepoint")
int pgt_empty_enter(void *ctx)
{
	return 0;
}

SEC("tracepoint")
int pgt_empty_exit(void *ctx)
{
	return 0;
}

SEC("tracepoint")
int pgt_clocks_enter(void *ctx)
{
	if (bpf_get_current_pid_tgid() >> 32 == target)
		started = bpf_ktime_get_ns();
	return 0;
}

SEC("tracepoint")
int pgt_clocks_exit(void *ctx)
{
	if (bpf_get_current_pid_tgid() >> 32 == target)
		took = bpf_ktime_get_ns() - started;
	return 0;
}

/* With the names of pgtrace's own, so that the same functions of it attach them to the same places.
 */

#define EMPTY(section, name)                                                                       \
	SEC(section)                                                                               \
	int name(void *ctx)                                                                        \
	{                                                                                          \
		return 0;                                                                          \
	}

EMPTY("tracepoint", pgt_tp_read)
EMPTY("tracepoint", pgt_tp_pread)
EMPTY("tracepoint", pgt_tp_exit)
EMPTY("tracepoint", pgt_u_req)
EMPTY("tracepoint", pgt_u_sqe)
EMPTY("tracepoint", pgt_u_complete)
EMPTY("raw_tracepoint", pgt_exit)
EMPTY("raw_tracepoint", pgt_sr_switch)
EMPTY("uprobe", pgt_q_status)
EMPTY("uprobe", pgt_q_start)
EMPTY("uprobe", pgt_q_portal_done)
EMPTY("uprobe", pgt_x_abort)
EMPTY("uprobe", pgt_a_ask)
EMPTY("uprobe", pgt_a_submit)

char LICENSE[] SEC("license") = "Dual BSD/GPL";
