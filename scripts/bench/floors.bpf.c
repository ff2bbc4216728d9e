// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What a tracer of pread64 cannot go below: programs that do nothing, and programs that do
 * only what measuring any time needs. */
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

char LICENSE[] SEC("license") = "Dual BSD/GPL";
