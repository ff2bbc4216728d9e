// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The in-kernel half in one object, so that its parts share their maps without a linker. */
#include "kernel.bpf.h"
#include <bpf/usdt.bpf.h>

#include "pgtrace.h"
#include "arithmetic.bpf.h"
#include "histogram.bpf.h"
#include "charge.bpf.h"
#include "slots.bpf.h"
#include "names.bpf.h"
#include "files.bpf.h"
#include "hash.bpf.h"
#include "known.bpf.h"
#include "statements.bpf.h"
#include "scopes.bpf.h"
#include "light.bpf.h"
#include "reads.bpf.c"
#include "ways.bpf.c"
#include "queries.bpf.c"
#include "aio.bpf.c"
#include "life.bpf.c"
#include "writes.bpf.c"
#include "write_ways.bpf.c"
#include "sync_ways.bpf.c"
#include "checkpoints.bpf.c"
#include "calibration.bpf.c"
#include "fill.bpf.c"

char LICENSE[] SEC("license") = "Dual BSD/GPL";
