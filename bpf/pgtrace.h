/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Types that both halves share. collector/pgtrace/engines/layout.py mirrors them, and
 * tests/unit/test_layout.py compiles this file to hold the two together. */
#ifndef PGTRACE_H
#define PGTRACE_H

#define SUBS	   16	   /* buckets per power of two */
#define SUB_BITS   4	   /* log2(SUBS) */
#define MAX_BITS   40	   /* values from 2^40 ns (18 minutes) on share the last bucket */
#define CHUNKS	   38	   /* one for the values below 16, one per power of two, one beyond */
#define FILES	   16	   /* files whose last position a task remembers */
#define TEXT	   1024	   /* bytes of query text kept, the closing NUL included */
#define SERVERS	   16	   /* postmasters traced at once */
#define TITLE	   160	   /* bytes of a process title kept */
#define NAME	   64	   /* NAMEDATALEN: what application_name may be long */
#define MAX_IOVECS 32	   /* PostgreSQL's PG_IOV_MAX; of longer vectors the length is not known */
#define NOBODY	   (~0u)   /* the index of a thread that is of no interest */
#define NOWHERE	   (~0ull) /* no position: no read of this file was seen before */

enum source { PAGE_CACHE, READAHEAD_ISSUED, DEVICE, WAIT, SOURCE_UNKNOWN, SOURCES };
enum pattern { SEQUENTIAL, NEAR, RANDOM, FIRST, PATTERN_UNKNOWN, PATTERNS };
enum size { BLOCKS_1, BLOCKS_2_4, BLOCKS_5_15, BLOCKS_16, SIZES };
enum scope { OUTSIDE, IN_QUERY, SCOPES };
enum performer { ITSELF, IO_URING, PERFORMERS };
enum protocol { PROTOCOL_UNKNOWN, SIMPLE, EXTENDED };

/* A slot's key within its task:
 * ((((scope * PERFORMERS + performer) * 2 + direct) * SIZES + size) * PATTERNS + pattern)
 * * SOURCES + source */
#define KEYS (SCOPES * PERFORMERS * 2 * SIZES * PATTERNS * SOURCES)

struct options {
	__u64 near_window;    /* bytes that a scan may skip and still be one: the read-ahead */
	__u32 only_tid;	      /* the thread whose state is task 0, or 0 */
	__u32 listed;	      /* threads in pgt_indexes are traced, whoever their parent is */
	__u32 children;	      /* children of the postmasters are traced */
	__u32 block_shift;    /* log2 of the server's block size */
	__u32 emit_durations; /* for tests: send each duration too */
	__u32 helpers_only;   /* of the children, only parallel and I/O workers */
	__u32 no_usdt;	      /* scopes follow exported functions instead */
	__u32 unused;
};

/* What user space changes while the programs run. */
struct live {
	__u64 application_name[SERVERS]; /* where each one's children keep a pointer to it, or 0 */
	__u32 postmasters[SERVERS];	 /* their children are traced; 0: no more of them */
	__u32 orphans; /* a postmaster ended: its children have another parent now */
	__u32 unused;
	__u64 lost_tasks; /* threads that there was no room for */
};

/* The histogram of reads that agree in everything that is told apart. Only the task that
 * owns a slot writes to it, so that no counter needs an atomic operation. */
struct slot {
	__u32 owner; /* serial of the task that counts here */
	__u32 payer; /* serial of the task on whose behalf: mostly itself */
	__u64 query; /* number of the payer's query; 0: outside queries */
	__u32 key;
	__u32 next; /* of the same owner's query: index + 1, or 0 */
	__u64 count;
	__u64 bytes;
	__u64 device_bytes;
	__u64 total_ns;
	__u64 min_ns;
	__u64 max_ns;
	__u64 queued_ns;     /* between request and begin, of reads that others asked for */
	__u32 chunk[CHUNKS]; /* index + 1, or 0 where no value fell */
};

struct chunk {
	__u64 count[SUBS];
};

/* Reads that are in no histogram because they failed or came short. */
struct apart {
	__u64 count;
	__u64 bytes;
	__u64 device_bytes;
	__u64 total_ns;
};

enum record { RECORD_QUERY = 1, RECORD_CHARGED };

/* One query as the client sees it; sent as it is, with as much of the text as there is. */
struct query {
	__u32 record; /* RECORD_QUERY */
	__u32 serial; /* of its task */
	__u64 number; /* counted within the task, from 1 */
	__u64 start_ns;
	__u64 end_ns;	  /* CLOCK_MONOTONIC, as start_ns */
	__u32 first_slot; /* index + 1; 0: its task made no read for it */
	__u8 protocol;
	__u8 open;
	__u8 executed;	   /* a portal ran */
	__u8 done;	   /* query__done: only a simple query that succeeded fires it */
	__u8 failed;	   /* the transaction was aborted while it ran */
	__u8 begun_before; /* it was open when tracing began */
	__u8 cut;	   /* its text was longer than TEXT */
	__u8 bound;	   /* its text was reported a second time: parse, then bind */
	__u32 text_length; /* without the closing NUL */
	__u32 analysed;	   /* a statement in it got as far as parse analysis */
	__u32 unused;
	char application_name[NAME];
	char text[TEXT];
};

/* A slot was taken by one task for reads that another pays. */
struct charged {
	__u32 record; /* RECORD_CHARGED */
	__u32 payer;
	__u64 query;
	__u32 slot; /* index + 1 */
	__u32 unused;
};

struct file_state {
	__u64 file;   /* struct file *, only compared */
	__u64 inode;  /* struct inode *, only compared */
	__u64 number; /* i_ino: the same inode, or another at its address? */
	__u64 next;   /* where the last read of it ended, or NOWHERE */
	__u32 flags;
	__u32 unused;
};

/* Whom the next read of a task is for, if not for itself. */
struct charge {
	__u32 payer; /* serial; 0: itself */
	__u32 unused;
	__u64 query;
	__u64 queued_ns;
};

/* What is known of one traced thread. Only that thread writes to it, except where it says so. */
struct task {
	__u64 start_ns; /* of the read in flight; 0: none */
	__u64 read_bytes;
	__u64 switches;
	__u64 asked;
	__u64 position;
	__u32 file;    /* index in files[] */
	__u32 serial;  /* by user space, before the task is taken: never used twice */
	__u32 ignored; /* by user space: of no interest, not all probes are there, or it is over */
	__u32 tid;
	__u32 tgid;
	__u32 inner_tgid; /* as its own PID namespace has it */
	__u32 postmaster; /* its parent when it was first seen */
	__u32 files_used; /* ever: more than FILES means that some were forgotten */
	__u64 began_ns;	  /* when it was first seen */
	__u64 ended_ns;	  /* 0 while it runs */
	__u64 lost_reads;
	__u64 lost_queries;
	struct charge charge;
	struct apart failed;
	struct apart cut_short;
	__u64 ignored_file; /* what was read last of what does not count: a signalfd, /proc */
	__u64 ignored_inode;
	__u64 last_request; /* struct io_kiocb *: who asked the device since request_bytes */
	__u64 request_bytes;
	struct file_state files[FILES];
	__u32 slot[KEYS];  /* index + 1, or 0; stale once the slot says another owner */
	char title[TITLE]; /* as it was when the task was first seen, or ran its first query */
	struct query query;
	char text[TEXT]; /* scratch: the text that a probe brought */
};

struct handle_key {
	__u64 handle; /* PgAioHandle *, in shared memory: the same in every process */
	__u32 postmaster;
	__u32 unused;
};

/* PostgreSQL 18: who asked for the I/O of a handle, and when. */
struct handle {
	__u32 payer;
	__u32 unused;
	__u64 query;
	__u64 asked_ns;
};

/* A read that io_uring performs. */
struct request {
	__u64 start_ns;
	__u64 asked;
	__u64 device_bytes;
	__u64 query;
	__u32 payer;
	__u32 pattern;
	__u32 flags;
	__u32 unused;
};

/* Reads that one task made for another. */
struct charged_key {
	__u32 owner;
	__u32 payer;
	__u64 query;
	__u32 key;
	__u32 unused;
};

#endif
