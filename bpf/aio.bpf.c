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
 * asks: before it is known who will read. The order of these calls is that of the scan. */
SEC("uprobe")
int BPF_KPROBE(pgt_a_start, void *ioh, int fd, int count, __u64 position)
{
	struct task *task = traced_task();
	struct handle_key key = {.handle = (__u64)ioh};
	struct handle handle = {};
	struct file *file;

	if (!task || !has_io_workers(task))
		return 0;
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
	request.payer = task->serial;
	request.query = task->query.open ? task->query.number : 0;
	request.statement = paid_by(task);
	request.start_ns = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&pgt_requests, &key, &request, BPF_ANY)) {
		task->lost_reads++;
		return 0;
	}
	task->last_request = key;
	task->request_bytes = counters.read_bytes;
	return 0;
}

/* Whether the request slept is not known, nor whether it found the page cache: only that its
 * bytes came from the device, if they did. */
static __always_inline int request_end(__u64 key, __s64 ret)
{
	struct request *request, done;
	struct slot_key owner = {};
	struct task *task;
	struct slot *slot;
	__u64 ns;
	__u32 place;
	bool over;

	request = bpf_map_lookup_elem(&pgt_requests, &key);
	if (!request)
		return 0;
	ns = bpf_ktime_get_ns() - request->start_ns;
	task = traced_task();
	if (!task)
		return 0;
	if (task->last_request == key) {
		settle_request(task, current_counters().read_bytes);
		task->last_request = 0;
	}
	done = *request;
	bpf_map_delete_elem(&pgt_requests, &key);
	if (ret < 0) {
		count_apart(&task->failed, 0, done.device_bytes, ns);
		return 0;
	}
	if ((__u64)ret < done.asked) {
		count_apart(&task->cut_short, ret, done.device_bytes, ns);
		return 0;
	}
	owner.owner = task->serial;
	owner.payer = done.payer;
	owner.file = done.entry;
	/* Of a query that is over, and was put to its statement, that */
	owner.query = done.query;
	if (done.query && (done.query != task->query.number || !task->query.open))
		owner.query = done.statement;
	owner.key = key_of(owner.query, OP_READ, IO_URING, done.flags, ret, done.pattern,
			   done.device_bytes ? DEVICE : SOURCE_UNKNOWN);
	over = owner.query && owner.query < OTHERS && owner.query != task->query.number;
	if (done.payer == task->serial && !over)
		place = find_slot(task, &owner);
	else
		place = charged_slot(&owner);
	slot = place ? slot_at(place - 1) : NULL;
	if (!slot || !count_read(slot, ns, ret, done.device_bytes))
		task->lost_reads++;
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
