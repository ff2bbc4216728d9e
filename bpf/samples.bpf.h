/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Copies of PgBackendStatus: what is known to be in it tells user space where its fields are. */
#ifndef SAMPLES_BPF_H
#define SAMPLES_BPF_H

#include "slots.bpf.h"
#include "tasks.bpf.h"

/* Of the current task, whose entry is there. `argument` is a state, or, with `of_id`, a query id.
 */
static __always_inline int send_sample(__u32 postmaster, __u64 entry, __u32 number, __u32 of_id,
				       __u64 argument, __u32 flag)
{
	struct pgt_sample *sample = bpf_ringbuf_reserve(&pgt_records, sizeof(*sample), 0);
	__u32 i;

	if (!sample)
		return 0;
	sample->record = RECORD_SAMPLE;
	sample->postmaster = postmaster;
	sample->tid = bpf_get_current_pid_tgid();
	sample->number = number;
	sample->ns = bpf_ktime_get_ns();
	sample->argument = argument;
	sample->of_id = of_id;
	sample->flag = flag;
	sample->pid = inner_tid();
	/* What is behind it may lie in a page that this process has not touched: that is 0 */
	for (i = 0; i < ENTRY / 8; i++)
		bpf_probe_read_user(&sample->entry[i * 8], 8, (void *)entry + i * 8);
	bpf_ringbuf_submit(sample, BPF_RB_NO_WAKEUP);
	return 0;
}

#endif
