// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* PostgreSQL 18's asynchronous I/O: reads that io_uring performs are charged to the backend that
 * asked, and to the query that it ran then. */

#include "booking.bpf.h"
#include "charge.bpf.h"
#include "counting.bpf.h"
#include "files.bpf.h"
#include "reads.bpf.h"
#include "requests.bpf.h"
#include "slots.bpf.h"
#include "tasks.bpf.h"

#define IORING_OP_READV	     1
#define IORING_OP_READ_FIXED 4
#define IORING_OP_READ	     22

static __always_inline int request_begin(struct io_kiocb *kiocb)
{
	struct io_rw *rw = (void *)kiocb; /* the command lies where the request does */
	struct pgt_request request = {};
	struct counters counters;
	struct pgt_file_state *state;
	struct pgt_task *task;
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
		request.asked = vector_length(BPF_CORE_READ(rw, addr), request.asked);
	state = &task->files[task->file & (FILES - 1)];
	request.pattern = pattern_of(task, state, false, position, request.asked);
	request.flags = state->flags;
	request.entry = state->entry;
	request.by_kind = state->by_kind;
	request.charged_to = task->serial;
	request.statement = charged_query(task, bpf_ktime_get_ns());
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

/* Bytes that the current thread had devices read since its last request, which is the one that it
 * executed now: it does nothing else, and ends one before it takes the next. Of a thread that is
 * older than tracing the first are not known. Nor can its sleeps be told: it also sleeps while it
 * waits for work. */
static __always_inline __u64 executed_bytes(struct pgt_task *backend)
{
	struct task_struct *current = (void *)bpf_get_current_task();
	__u64 read_bytes = current_counters().read_bytes, grown = 0, *before;
	__u64 id = bpf_get_current_pid_tgid();
	__u32 tid = id;

	if (id >> 32 != backend->tgid)
		return 0;
	before = bpf_map_lookup_elem(&pgt_executors, &tid);
	if (before) {
		grown = read_bytes - *before;
		*before = read_bytes;
	} else if (!bpf_map_update_elem(&pgt_executors, &tid, &read_bytes, BPF_ANY) &&
		   BPF_CORE_READ(current, start_time) >= backend->began_ns) {
		grown = read_bytes;
	}
	return grown;
}

/* Programs on tracepoints are not preempted: of the lanes as many are taken as CPUs count for
 * this task at this moment, mostly one. Not static: of what it returns the verifier knows nothing,
 * and follows what comes next once. */
__noinline __u32 take_lane(__u32 task_index)
{
	struct pgt_task *task = task_at(task_index);
	__u32 i;

	for (i = 0; task && i < LANES; i++)
		if (!__sync_lock_test_and_set(&task->completed.lanes[i], 1))
			return i;
	return LANES;
}

static __always_inline bool count_request(__u32 place, struct pgt_measured *measured)
{
	struct pgt_slot *slot = place ? slot_at(place - 1) : NULL;

	return slot && count_read(slot, measured, false);
}

/* Whether the request slept is not known, nor whether it found the page cache: only that its
 * bytes came from the device, if they did. It completes in the thread that submitted it, in one
 * of the same process that executes requests, or in one of the kernel's. */
static __always_inline int request_end(__u64 key, __s64 ret)
{
	struct pgt_request *request, done;
	struct pgt_measured measured = {};
	struct pgt_slot_key owner = {};
	struct pgt_excluded *excluded;
	struct pgt_task *backend;
	bool own, over, counted;
	__u32 place, lane;
	__u64 ns;

	request = bpf_map_lookup_elem(&pgt_requests, &key);
	if (!request)
		return 0;
	ns = bpf_ktime_get_ns() - request->start_ns;
	backend = task_at(request->index);
	if (!backend || backend->serial != request->charged_to || backend->ignored) {
		/* Its place is given up, too: the next request at that address is another's */
		bpf_map_delete_elem(&pgt_requests, &key);
		return 0;
	}
	own = (__u32)bpf_get_current_pid_tgid() == backend->tid;
	if (own && backend->last_request == key) {
		settle_request(backend, current_counters().read_bytes);
		backend->last_request = 0;
	}
	done = *request;
	bpf_map_delete_elem(&pgt_requests, &key);
	if (own) {
		backend->requests--;
	} else {
		done.device_bytes += executed_bytes(backend);
		__sync_fetch_and_add(&backend->completed.requests, 1);
	}
	if (ret < 0 || (__u64)ret < done.asked) {
		excluded = ret < 0 ? &backend->completed.failed : &backend->completed.cut_short;
		__sync_fetch_and_add(&excluded->count, 1);
		__sync_fetch_and_add(&excluded->bytes, ret < 0 ? 0 : ret);
		__sync_fetch_and_add(&excluded->device_bytes, done.device_bytes);
		__sync_fetch_and_add(&excluded->total_ns, ns);
		return 0;
	}
	owner.charged_to = done.charged_to;
	owner.file = done.entry;
	/* Of a query that is over, and was put to its statement, that; and of one that another
	 * thread would have to link its slots to */
	owner.query = done.statement;
	over = true;
	if (own && (!done.query || (done.query == backend->query.number && backend->query.open))) {
		owner.query = done.query;
		over = false;
	}
	owner.key = key_of(owner.query, OP_READ, IO_URING, done.flags, ret, done.pattern,
			   done.device_bytes ? DEVICE : SOURCE_UNKNOWN);
	measured.ns = ns;
	measured.bytes = ret;
	measured.device_bytes = done.device_bytes;
	if (own) {
		owner.owner = backend->serial;
		place = over ? charged_slot(&owner, false) : find_slot(backend, &owner, false);
		counted = count_request(place, &measured) ||
			  count_by_kind(backend, &owner, done.by_kind, &measured);
	} else {
		lane = take_lane(backend->index);
		owner.owner = LANE | lane;
		counted = lane < LANES && (count_request(charged_slot(&owner, false), &measured) ||
					   count_by_kind(backend, &owner, done.by_kind, &measured));
		if (lane < LANES)
			__sync_lock_test_and_set(&backend->completed.lanes[lane], 0);
	}
	if (!counted)
		__sync_fetch_and_add(&backend->completed.lost, 1);
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
