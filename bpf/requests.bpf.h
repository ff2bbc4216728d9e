/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reads that others may perform: those that were asked of I/O workers, and those of io_uring that
 * are under way, with who executes them. */
#ifndef REQUESTS_BPF_H
#define REQUESTS_BPF_H

#include "kernel.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, struct pgt_asked_key);
	__type(value, struct pgt_asked);
} pgt_asked SEC(".maps");

/* A read that io_uring performs. */
struct pgt_request {
	__u64 start_ns;
	__u64 asked;
	__u64 device_bytes;
	__u64 query;
	__u64 statement;
	__u32 charged_to;
	__u32 pattern;
	__u32 flags;
	__u32 entry;
	__u32 index; /* of its task in pgt_tasks */
	__u32 by_kind;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u64); /* struct io_kiocb * */
	__type(value, struct pgt_request);
} pgt_requests SEC(".maps");

/* Of threads of a process that execute its requests (iou-wrk-PID): what of the bytes that each had
 * its devices read was told of. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32); /* thread id */
	__type(value, __u64);
} pgt_executors SEC(".maps");

#endif
