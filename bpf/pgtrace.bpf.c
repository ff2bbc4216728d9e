// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The in-kernel half in one object, so that its parts share their maps without a linker. Programs
 * are loaded in this order. */
#include "read_probes.bpf.c"
#include "query_probes.bpf.c"
#include "io_workers.bpf.c"
#include "io_uring.bpf.c"
#include "exit.bpf.c"
#include "write_probes.bpf.c"
#include "fsync_probes.bpf.c"
#include "checkpoints.bpf.c"
#include "sched_probes.bpf.c"
#include "calibration.bpf.c"
#include "free_lists.bpf.c"

char LICENSE[] SEC("license") = "Dual BSD/GPL";
