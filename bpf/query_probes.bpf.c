// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The probes that tell where a query begins and ends. */

#include "charge.bpf.h"
#include "preemption.bpf.h"
#include "query_scope.bpf.h"
#include "tasks.bpf.h"
#include "user_arguments.bpf.h"

/* A server's probes wait in all processes of its binary, those of other servers too: these are
 * left before an argument is fetched, which takes longer than all of this. */
SEC("uprobe")
int pgt_q_status(struct pt_regs *ctx)
{
	return UNPREEMPTED(is_elsewhere() ? 0 : status(usdt_pointer(ctx), 0));
}

SEC("uprobe")
int pgt_q_start(struct pt_regs *ctx)
{
	return UNPREEMPTED(is_elsewhere() ? 0 : simple_start(usdt_pointer(ctx)));
}

/* A simple query that fails does not come here. Nor does it without an abort, which tells as much,
 * and stops no query that is right. */
SEC("uprobe")
int pgt_d_done(struct pt_regs *ctx)
{
	return UNPREEMPTED(simple_done());
}

SEC("uprobe")
int pgt_q_portal_done(struct pt_regs *ctx)
{
	return UNPREEMPTED(portal_done(PT_REGS_IP(ctx)));
}

SEC("uprobe")
int pgt_x_abort(struct pt_regs *ctx)
{
	return UNPREEMPTED(aborted());
}

/* The first is kept, unless it is forced; a simple query forces 0 before each of its statements */
static __always_inline int report_query_id(__u64 query_id, bool force)
{
	struct pgt_task *task = query_task();
	struct pgt_query *query;

	if (!task)
		return 0;
	query = &task->query;
	if (options.no_usdt && query->open)
		take_protocol(task, force && !query_id ? SIMPLE : EXTENDED);
	if (!query->open || query->several || (query->query_id && !force))
		return 0;
	if (query->query_id)
		query->several = 1;
	query->query_id = query->several ? 0 : query_id;
	query->statement = 0;
	return 0;
}

/* pgstat_report_query_id(uint64 query_id, bool force), 14 and later */
SEC("uprobe")
int pgt_i_query_id(struct pt_regs *ctx)
{
	return UNPREEMPTED(report_query_id(PT_REGS_PARM1(ctx), PT_REGS_PARM2(ctx)));
}

/* A server without USDT: the exported functions in which the probes would be. */

/* pgstat_report_activity(BackendState state, const char *cmd_str): statement__status is in it */
SEC("uprobe")
int pgt_n_activity(struct pt_regs *ctx)
{
	return UNPREEMPTED(is_elsewhere() ? 0 : status((void *)PT_REGS_PARM2(ctx), call_site(ctx)));
}

SEC("uprobe")
int pgt_n_portal(struct pt_regs *ctx)
{
	return UNPREEMPTED(portal_start());
}

SEC("uprobe")
int pgt_n_portal_ret(struct pt_regs *ctx)
{
	return UNPREEMPTED(portal_done(PT_REGS_IP(ctx)));
}
