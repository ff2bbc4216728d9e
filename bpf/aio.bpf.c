// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* PostgreSQL 18's asynchronous I/O: reads that an I/O worker or io_uring performs are charged
 * to the backend that asked, and to the query that it ran then. */

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, struct handle_key);
	__type(value, struct handle);
} pgt_handles SEC(".maps");

/* What a read that others perform is booked on, as the backend's query stands now. Its number
 * is of use only while it is open, and only where its record tells which slots are its. */
static __always_inline __u64 paid_by(struct task *task)
{
	if (options.light)
		return statement_seen(task, bpf_ktime_get_ns());
	if (!task->query.open)
		return 0;
	if (options.per_query)
		return task->query.number;
	if (!task->query.statement)
		find_statement(task->index, task->index);
	return task->query.statement;
}

/* Where io_uring performs, the order is that of its submissions, and where nobody does, that of
 * the system calls. */
static __always_inline bool has_io_workers(struct task *task)
{
	__u32 place = place_of(task->postmaster);

	return place < SERVERS && live.io_workers[place & (SERVERS - 1)];
}

/* smgrstartreadv(PgAioHandle *ioh, SMgrRelation reln, ForkNumber forknum, BlockNumber blocknum,
 * void **buffers, BlockNumber nblocks) */
SEC("uprobe")
int pgt_a_blocks(struct pt_regs *ctx)
{
	struct task *task = traced_task();

	if (task)
		task->asked_blocks = SIXTH_ARGUMENT(ctx);
	return 0;
}

/* pgaio_io_start_readv(PgAioHandle *ioh, int fd, int iovcnt, uint64 offset), in the backend that
 * asks: before it is known who will read. The order of these calls is that of the scan. Where its
 * probe is put, the second argument may be in memory: then there is a cookie. */
SEC("uprobe")
int BPF_KPROBE(pgt_a_start, void *ioh, int fd, int count, __u64 position)
{
	struct task *task = traced_task();
	struct handle_key key = {.handle = (__u64)ioh};
	struct handle handle = {};
	struct file *file;
	__u64 cookie;

	if (!task || !has_io_workers(task))
		return 0;
	cookie = options.cookies ? bpf_get_attach_cookie(ctx) : 0;
	if (cookie)
		fd = value_at(ctx, cookie);
	handle.pattern = PATTERN_UNKNOWN;
	file = current_file(fd);
	if (file && find_file(task, file))
		handle.pattern = pattern_of(task, &task->files[task->file & (FILES - 1)], false,
					    position, task->asked_blocks << options.block_shift);
	key.postmaster = task->postmaster;
	handle.payer = task->serial;
	handle.query = paid_by(task);
	handle.asked_ns = bpf_ktime_get_ns();
	bpf_map_update_elem(&pgt_handles, &key, &handle, BPF_ANY);
	return 0;
}

/* pgaio_wref_wait(PgAioWaitRef *iow): called where a read is not there yet */
SEC("uprobe")
int pgt_a_wait(struct pt_regs *ctx)
{
	struct task *task = traced_task();

	if (task)
		task->wait_start_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("uprobe")
int pgt_a_wait_ret(struct pt_regs *ctx)
{
	struct task *task = traced_task();

	if (!task || !task->wait_start_ns)
		return 0;
	task->query.waited_ns += bpf_ktime_get_ns() - task->wait_start_ns;
	task->wait_start_ns = 0;
	return 0;
}

/* pgaio_io_perform_synchronously(PgAioHandle *ioh), in whoever makes the system call: one */
SEC("uprobe")
int BPF_KPROBE(pgt_a_perform, void *ioh)
{
	struct task *task = traced_task();
	struct handle_key key = {.handle = (__u64)ioh};
	struct handle *handle;

	if (!task)
		return 0;
	key.postmaster = task->postmaster;
	task->charge.payer = 0;
	task->charge.known = 0;
	handle = bpf_map_lookup_elem(&pgt_handles, &key);
	if (!handle)
		return 0;
	task->charge.pattern = handle->pattern;
	task->charge.known = 1;
	if (handle->payer == task->serial)
		return 0;
	task->charge.query = handle->query;
	task->charge.queued_ns = bpf_ktime_get_ns() - handle->asked_ns;
	task->charge.payer = handle->payer;
	return 0;
}

#define IORING_OP_READV	     1
#define IORING_OP_READ_FIXED 4
#define IORING_OP_READ	     22

static __always_inline int request_begin(struct io_kiocb *kiocb)
{
	struct io_rw *rw = (void *)kiocb; /* the command lies where the request does */
	struct request request = {};
	struct counters counters;
	struct file_state *state;
	struct task *task;
	struct file *file;
	__u64 key = (__u64)kiocb, position;
	__u8 opcode;

	task = traced_task();
	if (!task)
		return 0;
	opcode = BPF_CORE_READ(kiocb, opcode);
	if (opcode != IORING_OP_READV && opcode != IORING_OP_READ && opcode != IORING_OP_READ_FIXED)
		return 0;
	/* The file is looked up only when the request is issued: since 6bf9c47a3989, "io_uring:
	 * defer file assignment", 5.18 */
	file = BPF_CORE_READ(kiocb, file);
	if (!file && bpf_core_field_exists(kiocb->cqe.fd))
		file = current_file(BPF_CORE_READ(kiocb, cqe.fd));
	if (!file || !find_file(task, file))
		return 0;
	counters = current_counters();
	if (task->last_request)
		settle_request(task, counters.read_bytes);
	position = BPF_CORE_READ(rw, kiocb.ki_pos);
	request.asked = BPF_CORE_READ(rw, len);
	if (opcode == IORING_OP_READV)
		request.asked = vector_length((void *)BPF_CORE_READ(rw, addr), request.asked);
	state = &task->files[task->file & (FILES - 1)];
	request.pattern = pattern_of(task, state, false, position, request.asked);
	request.flags = state->flags;
	request.entry = state->entry;
	request.by_kind = state->by_kind;
	request.payer = task->serial;
	request.statement = paid_by(task);
	request.query = options.light	   ? request.statement
			: task->query.open ? task->query.number
					   : 0;
	request.index = task->index;
	request.start_ns = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&pgt_requests, &key, &request, BPF_NOEXIST)) {
		/* There is no room; or nobody told of the end of one that was in the same place */
		task->lost_reads++;
		if (bpf_map_update_elem(&pgt_requests, &key, &request, BPF_EXIST))
			return 0;
	} else {
		task->requests++;
	}
	task->last_request = key;
	task->request_bytes = counters.read_bytes;
	return 0;
}

/* Of threads of a process that execute its requests (iou-wrk-PID): what of the bytes that each had
 * its devices read was told of. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32); /* thread id */
	__type(value, __u64);
} pgt_executors SEC(".maps");

/* Bytes that the current thread had devices read since its last request, which is the one that it
 * executed now: it does nothing else, and ends one before it takes the next. Of a thread that is
 * older than tracing the first are not known. Nor can its sleeps be told: it also sleeps while it
 * waits for work. */
static __always_inline __u64 executed_bytes(struct task *payer)
{
	struct task_struct *current = (void *)bpf_get_current_task();
	__u64 read_bytes = current_counters().read_bytes, grown = 0, *before;
	__u64 id = bpf_get_current_pid_tgid();
	__u32 tid = id;

	if (id >> 32 != payer->tgid)
		return 0;
	before = bpf_map_lookup_elem(&pgt_executors, &tid);
	if (before) {
		grown = read_bytes - *before;
		*before = read_bytes;
	} else if (!bpf_map_update_elem(&pgt_executors, &tid, &read_bytes, BPF_ANY) &&
		   BPF_CORE_READ(current, start_time) >= payer->began_ns) {
		grown = read_bytes;
	}
	return grown;
}

/* Programs on tracepoints are not preempted: of the lanes as many are taken as CPUs count for
 * this task at this moment, mostly one. */
static __always_inline __u32 take_lane(struct completed *completed)
{
	__u32 i;

	for (i = 0; i < LANES; i++)
		if (!__sync_lock_test_and_set(&completed->lanes[i], 1))
			break;
	return i;
}

static __always_inline bool count_request(__u32 place, struct measured *measured)
{
	struct slot *slot = place ? slot_at(place - 1) : NULL;

	return slot && count_read(slot, measured, false);
}

/* Whether the request slept is not known, nor whether it found the page cache: only that its
 * bytes came from the device, if they did. It completes in the thread that submitted it, in one
 * of the same process that executes requests, or in one of the kernel's. */
static __always_inline int request_end(__u64 key, __s64 ret)
{
	struct request *request, done;
	struct measured measured = {};
	struct slot_key owner = {};
	struct apart *apart;
	struct task *payer;
	bool own, over, counted;
	__u32 place, lane;
	__u64 ns;

	request = bpf_map_lookup_elem(&pgt_requests, &key);
	if (!request)
		return 0;
	ns = bpf_ktime_get_ns() - request->start_ns;
	payer = task_at(request->index);
	if (!payer || payer->serial != request->payer || payer->ignored)
		return 0;
	own = (__u32)bpf_get_current_pid_tgid() == payer->tid;
	if (own && payer->last_request == key) {
		settle_request(payer, current_counters().read_bytes);
		payer->last_request = 0;
	}
	done = *request;
	bpf_map_delete_elem(&pgt_requests, &key);
	if (own) {
		payer->requests--;
	} else {
		done.device_bytes += executed_bytes(payer);
		__sync_fetch_and_add(&payer->completed.requests, 1);
	}
	if (ret < 0 || (__u64)ret < done.asked) {
		apart = ret < 0 ? &payer->completed.failed : &payer->completed.cut_short;
		__sync_fetch_and_add(&apart->count, 1);
		__sync_fetch_and_add(&apart->bytes, ret < 0 ? 0 : ret);
		__sync_fetch_and_add(&apart->device_bytes, done.device_bytes);
		__sync_fetch_and_add(&apart->total_ns, ns);
		return 0;
	}
	owner.payer = done.payer;
	owner.file = done.entry;
	/* Of a query that is over, and was put to its statement, that; and of one that another
	 * thread would have to link its slots to */
	owner.query = done.statement;
	over = true;
	if (own && (!done.query || (done.query == payer->query.number && payer->query.open))) {
		owner.query = done.query;
		over = false;
	}
	owner.key = key_of(owner.query, OP_READ, IO_URING, done.flags, ret, done.pattern,
			   done.device_bytes ? DEVICE : SOURCE_UNKNOWN);
	measured.ns = ns;
	measured.bytes = ret;
	measured.device_bytes = done.device_bytes;
	if (own) {
		owner.owner = payer->serial;
		place = over ? charged_slot(&owner, false) : find_slot(payer, &owner, false);
		counted = count_request(place, &measured) ||
			  count_by_kind(payer, &owner, done.by_kind, &measured);
	} else {
		lane = take_lane(&payer->completed);
		owner.owner = LANE | lane;
		counted = lane < LANES && (count_request(charged_slot(&owner, false), &measured) ||
					   count_by_kind(payer, &owner, done.by_kind, &measured));
		if (lane < LANES)
			__sync_lock_test_and_set(&payer->completed.lanes[lane], 0);
	}
	if (!counted)
		__sync_fetch_and_add(&payer->completed.lost, 1);
	return 0;
}

SEC("tracepoint")
int pgt_u_req(struct trace_event_raw_io_uring_submit_req *ctx)
{
	return request_begin(ctx->req);
}

SEC("tracepoint")
int pgt_u_sqe(struct trace_event_raw_io_uring_submit_sqe *ctx)
{
	return request_begin(ctx->req);
}

SEC("tracepoint")
int pgt_u_complete(struct trace_event_raw_io_uring_complete *ctx)
{
	return request_end((__u64)ctx->req, ctx->res);
}
