// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* When the phases of a server's last checkpoint began. Apart from the others, so that none of this
 * is loaded where nobody asks for it. */

#include "charge.bpf.h"
#include "preemption.bpf.h"
#include "tasks.bpf.h"

static __always_inline int checkpoint_phase(__u32 phase)
{
	if (traced_task())
		live.checkpoint_ns[phase] = bpf_ktime_get_ns();
	return 0;
}

/* CreateCheckPoint(int flags), and its return. The probe checkpoint__done says when, too, but
 * libbpf 1.1 cannot take in its arguments, and refuses it. */
SEC("uprobe")
int pgt_c_begin(struct pt_regs *ctx)
{
	return UNPREEMPTED(checkpoint_phase(CHECKPOINT_BEGIN));
}

SEC("uprobe")
int pgt_c_end(struct pt_regs *ctx)
{
	return UNPREEMPTED(checkpoint_phase(CHECKPOINT_END));
}

/* buffer__checkpoint__start, buffer__checkpoint__sync__start, buffer__checkpoint__done: where the
 * server takes the times of write= and sync= in its log. */
SEC("uprobe")
int pgt_c_write(struct pt_regs *ctx)
{
	return UNPREEMPTED(checkpoint_phase(CHECKPOINT_WRITE));
}

SEC("uprobe")
int pgt_c_sync(struct pt_regs *ctx)
{
	return UNPREEMPTED(checkpoint_phase(CHECKPOINT_SYNC));
}

SEC("uprobe")
int pgt_c_synced(struct pt_regs *ctx)
{
	return UNPREEMPTED(checkpoint_phase(CHECKPOINT_SYNCED));
}
