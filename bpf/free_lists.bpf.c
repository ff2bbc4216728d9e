// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Puts what is free into its queues, before tracing begins: one system call for many
 * places, where user space would need one for each. */

#include "files.bpf.h"
#include "slots.bpf.h"
#include "statements.bpf.h"

#define FILL_AT_ONCE 8192
#define OFFERED	     128

enum pgt_queue { FREE_SLOTS, FREE_CHUNKS, FREE_FILES, FREE_STATEMENTS };

/* Not static, so that the verifier looks at it once. */
__noinline int offer(__u32 queue, __u32 index)
{
	switch (queue) {
	case FREE_SLOTS:
		return give_slot(index);
	case FREE_CHUNKS:
		return give_chunk(index);
	case FREE_FILES:
		return bpf_map_push_elem(&pgt_free_files, &index, 0);
	case FREE_STATEMENTS:
		return bpf_map_push_elem(&pgt_free_statements, &index, 0);
	}
	return -1;
}

/* The last of these, but for so many. */
__noinline int offer_some(__u32 queue, __u32 first, __u32 count, __u32 but)
{
	__u32 i;

	for (i = 0; i < OFFERED && but < count; i++, but++)
		if (offer(queue, first + count - 1 - but))
			return 1;
	return 0;
}

/* Run by user space, with the queue, the first index, and how many: at most FILL_AT_ONCE. The first
 * is put there last, and taken first. */
SEC("raw_tracepoint")
int pgt_fill(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 queue = ctx->args[0], first = ctx->args[1], count = ctx->args[2], but;

	for (but = 0; but < FILL_AT_ONCE && but < count; but += OFFERED)
		if (offer_some(queue, first, count, but))
			return 1;
	return 0;
}
