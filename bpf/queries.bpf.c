// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The probes that tell where a query begins and ends. */

/* Of an argument that lies where a cookie says. */
static __always_inline __u64 value_at(struct pt_regs *ctx, __u64 cookie)
{
	__u64 value = 0;

	bpf_probe_read_kernel(&value, sizeof(value), (void *)ctx + (cookie & COOKIE_REGISTER));
	if (cookie & COOKIE_IN_MEMORY)
		bpf_probe_read_user(&value, sizeof(value), (void *)value + ((__s64)cookie >> 32));
	return value;
}

/* The first argument of a USDT probe, a pointer. Where it lies, in a register or in memory, the
 * cookie of the place tells; before kernels had these (5.15), what libbpf found there. */
static __always_inline const char *usdt_pointer(struct pt_regs *ctx)
{
	long pointer = 0;

	if (!options.cookies) {
		bpf_usdt_arg(ctx, 0, &pointer);
		return (const char *)pointer;
	}
	return (const char *)value_at(ctx, bpf_get_attach_cookie(ctx));
}

/* A server's probes wait in all processes of its binary, those of other servers too: these are
 * left before an argument is fetched, which takes longer than all of this. */
SEC("uprobe")
int pgt_q_status(struct pt_regs *ctx)
{
	if (is_elsewhere())
		return 0;
	return status(usdt_pointer(ctx), 0);
}

SEC("uprobe")
int pgt_q_start(struct pt_regs *ctx)
{
	if (is_elsewhere())
		return 0;
	return simple_start(usdt_pointer(ctx));
}

SEC("uprobe")
int pgt_q_done(struct pt_regs *ctx)
{
	return simple_done();
}

SEC("uprobe")
int pgt_q_portal_start(struct pt_regs *ctx)
{
	return portal_start();
}

SEC("uprobe")
int pgt_q_portal_done(struct pt_regs *ctx)
{
	return portal_done();
}

SEC("uprobe")
int pgt_x_abort(struct pt_regs *ctx)
{
	return aborted();
}

/* pgstat_report_query_id(uint64 query_id, bool force), 14 and later: the first is kept, unless
 * it is forced; a simple query forces 0 before each of its statements */
SEC("uprobe")
int BPF_KPROBE(pgt_i_query_id, __u64 query_id, bool force)
{
	struct task *task = query_task();
	struct query *query;

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

/* A server without USDT: the exported functions in which the probes would be. */

/* pgstat_report_activity(BackendState state, const char *cmd_str): statement__status is in it */
SEC("uprobe")
int BPF_KPROBE(pgt_n_activity, int state, const char *text)
{
	if (is_elsewhere())
		return 0;
	return status(text, call_site(ctx));
}

SEC("uprobe")
int pgt_n_portal(struct pt_regs *ctx)
{
	return portal_start();
}

SEC("uprobe")
int pgt_n_portal_ret(struct pt_regs *ctx)
{
	return portal_done();
}
