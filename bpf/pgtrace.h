/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Types that both halves share. collector/pgtrace/engines/layout.py mirrors them, and
 * tests/unit/test_layout.py compiles this file to hold the two together. */
#ifndef PGTRACE_H
#define PGTRACE_H

#include <linux/types.h>

#define SUBS	   16	   /* buckets per power of two */
#define SUB_BITS   4	   /* log2(SUBS) */
#define MAX_BITS   40	   /* values from 2^40 ns (18 minutes) on share the last bucket */
#define CHUNKS	   38	   /* one for the values below 16, one per power of two, one beyond */
#define FILES	   16	   /* files, and relations, that a task remembers */
#define CACHED	   32	   /* slots that it remembers for each file */
#define RECENT	   32	   /* statements that it remembers by their ids */
#define TIMED	   32	   /* slots of its time that it remembers */
#define COMPONENTS 4	   /* of a path: the last ones are kept */
#define COMPONENT  40	   /* bytes of each, the closing NUL included */
#define FOLDED	   64	   /* slots of a query that are put to its statement's at once */
#define TEXT	   1024	   /* bytes of query text kept, the closing NUL included */
#define CERTAIN	   3	   /* handles that agree on where they say what they read */
#define SERVERS	   16	   /* postmasters traced at once */
#define TITLE	   160	   /* bytes of a process title kept */
#define NAME	   64	   /* NAMEDATALEN: what application_name may be long */
#define MAX_IOVECS 128	   /* PG_IOV_MAX, 32 before 18; of longer vectors the length is unknown */
#define PLACES	   4096	   /* where threads' indexes are remembered, by the ids' last bits */
#define LANES	   16	   /* threads that count requests of one task at the same time */
#define LANE	   (~255u) /* the owner of the slots of a lane: this, and its number */
#define ENTRY	   768 /* bytes of a PgBackendStatus that calibration looks at: more than it is long */
#define HEAD	   64 /* and of its begin, with its count of changes and pid, that are read at once */
#define NOBODY	   (~0u)	   /* the index of a thread that is of no interest */
#define NOWHERE	   (~0ull)	   /* no position: no read of this file was seen before */
#define STATEMENT  (1ull << 62)	   /* in place of a query's number: a statement's index + 1 */
#define OTHERS	   (STATEMENT - 1) /* a statement for which there was no room */
#define TO_ASK	   (1ull << 63)	   /* beside a task's index: the statement that it runs */

enum pgt_operation { OP_READ, OP_WRITE, OP_FSYNC, OP_FDATASYNC, OP_SYNC_FILE_RANGE, OPERATIONS };
enum pgt_source { PAGE_CACHE, READAHEAD_ISSUED, DEVICE, WAIT, SOURCE_UNKNOWN, SOURCES };
enum pgt_pattern { SEQUENTIAL, NEAR, RANDOM, FIRST, PATTERN_UNKNOWN, PATTERNS };
enum pgt_size { BLOCKS_1, BLOCKS_2_4, BLOCKS_5_15, BLOCKS_16, SIZES };
enum pgt_kind {
	KIND_UNKNOWN,
	RELATION,
	VISIBILITY_MAP,
	FREE_SPACE_MAP,
	TEMPORARY,
	WAL,
	SLRU,
	OTHER,
	KINDS
};
enum pgt_scope { OUTSIDE, IN_QUERY, SCOPES };
enum pgt_performer { ITSELF, IO_URING, PERFORMERS };
enum pgt_protocol { PROTOCOL_UNKNOWN, SIMPLE, EXTENDED };
enum pgt_time { ON_CPU, RUN_QUEUE, SLEEP, STOLEN, QUEUE_IN_READ, TIMES };

/* A slot's key within its task:
 * (((((scope * OPERATIONS + operation) * PERFORMERS + performer) * 2 + direct) * SIZES + size)
 * * PATTERNS + pattern) * SOURCES + source */
#define KEYS (SCOPES * OPERATIONS * PERFORMERS * 2 * SIZES * PATTERNS * SOURCES)
/* Or of where its time went: KEYS + scope * TIMES + time. In the place of the file is the event. */
#define ALL_KEYS (KEYS + SCOPES * TIMES)
/* The event of a sleep for which the server shows none, or of who is held up; the task's state is
 * in the lowest bytes. */
#define KERNEL_SLEEP 0xff000000

struct pgt_options {
	__u64 segment_bytes;  /* of a relation's files, all but the last are this long */
	__u32 only_tid;	      /* the thread whose state is task 0, or 0 */
	__u32 listed;	      /* threads in pgt_indexes are traced, whoever their parent is */
	__u32 children;	      /* children of the postmasters are traced */
	__u32 block_shift;    /* log2 of the server's block size */
	__u32 emit_durations; /* for tests: send each duration too */
	__u32 helpers_only;   /* of the children, only parallel and I/O workers */
	__u32 no_usdt;	      /* scopes follow exported functions instead */
	__u32 by_file;	      /* reads are booked on their file, not only on its kind */
	__u32 per_query;      /* a record of each query, instead of sums by statement */
	__u32 page_bytes;
	__u32 literals;	    /* texts that differ in them are different statements */
	__u32 writes;	    /* they are measured too */
	__u32 spare_slots;  /* from this index on they are spare */
	__u32 spare_chunks; /* the same */
	__u32 cookies;	    /* of places of USDT probes: where their first argument lies */
	__u32 light;	    /* statements are looked up in their backends' memory */
	__u32 times;	    /* where the time of tasks goes is measured */
	__u32 done;	    /* query__done is probed: some binary does not tell of aborts */
	__u32 asked;	    /* reads may be asked of I/O workers */
};

/* Such a cookie: the register's place in struct pt_regs; whether it points to where the argument
 * is; and in the upper half, so many bytes from there. */
#define COOKIE_REGISTER	 0xffff
#define COOKIE_IN_MEMORY 0x10000

/* Where a server's processes keep what the light tier looks at: the same addresses in all of them.
 * The offsets are those of fields of PgBackendStatus, found by calibration. */
struct pgt_memory {
	__u64 entry;	/* MyBEEntry */
	__u64 text;	/* debug_query_string */
	__u64 wait;	/* my_wait_event_info */
	__u32 found;	/* the offsets are */
	__s32 sampled;	/* calls of so many more threads are, to find them */
	__u32 running;	/* what st_state says while a statement runs */
	__u32 changes;	/* st_changecount */
	__u32 state;	/* st_state */
	__u32 start;	/* st_activity_start_timestamp */
	__u32 query_id; /* st_query_id; 0: not known */
	__u32 pid;	/* st_procpid */
	__u32 round;	/* of samples: threads are chosen anew in each */
	__u32 unused;
};

/* Where a server's I/O handles say what they read: found by reads whose place is known. */
struct pgt_handles {
	__u32 submitted; /* a probe sees what is handed to I/O workers */
	__u32 place;	 /* of the relation's numbers in a PgAioHandle; 0: not known yet */
	__u32 agreed;	 /* so many reads had theirs there: CERTAIN are enough */
	__u32 noted;	 /* when the server asked for a read last, in jiffies; 0: never */
};

/* What user space changes while the programs run. */
enum pgt_checkpoint_phase {
	CHECKPOINT_BEGIN,
	CHECKPOINT_WRITE,
	CHECKPOINT_SYNC,
	CHECKPOINT_SYNCED,
	CHECKPOINT_END,
	CHECKPOINT_PHASES
};

struct pgt_live {
	__u64 application_name[SERVERS]; /* where each one's children keep a pointer to it, or 0 */
	__u32 postmasters[SERVERS];	 /* their children are traced; NOBODY: it has ended, and
					    so have they; 0: no more of them */
	__u32 io_workers[SERVERS]; /* if it has such, to which its backends leave reads: log2 of its
				      block size */
	__u32 orphans;		   /* a postmaster ended: its children have another parent now */
	__u32 no_switch;	   /* the probe of times.bpf.h was refused */
	__u64 lost_tasks;	   /* threads that there was no room for */
	__u64 lost[OPERATIONS];	   /* what is in no slot, */
	__u64 no_slot;		   /* because there was none, */
	__u64 no_chunk;		   /* or no chunk for its value */
	__u64 lost_latencies;	   /* of calls: they are in no histogram */
	__u64 lost_queries;	   /* their records found the ring full */
	__u64 by_kind;		   /* counted on all files of a kind: no room to tell its file */
	__u64 checkpoint_ns[CHECKPOINT_PHASES]; /* when each began in the last checkpoint, or 0 */
	struct pgt_memory memory[SERVERS];
	__u64 unseen;		/* statements that could not be looked up when they read */
	__u64 lost_times;	/* pieces of a task's time that there was no room for */
	__u64 parents[SERVERS]; /* struct task_struct * of each postmaster, only compared; 0: not
				   known yet */
	__u64 followed;		/* how often it changed whose children are traced */
	__u64 begun;		/* all probes are there: nobody is met before */
	struct pgt_handles handles[SERVERS];
};

/* The histogram of reads, or of writes or fsyncs, that agree in everything that is told apart. Only
 * the task that owns a slot writes to it, so that no counter needs an atomic operation. */
struct pgt_slot {
	__u32 owner;	  /* serial of the task that counts here */
	__u32 charged_to; /* serial of the task on whose behalf: mostly itself */
	__u64 query;	  /* number of that one's query, or its statement; 0: outside queries */
	__u32 key;
	__u32 next; /* of the same owner's query: index + 1, or 0 */
	__u32 file; /* index in pgt_files */
	__u32 unused;
	__u64 count;
	__u64 total_ns;
	__u64 min_ns;
	__u64 max_ns;
	__u64 bytes;
	__u64 device_bytes;
	__u64 queued_ns;     /* between request and begin, of reads that others asked for */
	__u32 chunk[CHUNKS]; /* index + 1, or 0 where no value fell */
	__u64 padding[2]; /* to whole lines of a CPU's cache: what is counted each time is in one */
};

struct pgt_chunk {
	__u64 count[SUBS];
};

/* Calls of one statement, or of several that are not told apart. */
struct pgt_calls {
	__u64 calls;
	__u64 errors;
	__u64 total_ns;
	__u64 min_ns;
	__u64 max_ns;
	__u64 waited_ns;     /* for asynchronous reads */
	__u32 chunk[CHUNKS]; /* of their latencies, as in a slot */
};

/* Reads that are in no histogram because they failed or came short; or writes, or fsyncs. */
struct pgt_excluded {
	__u64 count;
	__u64 bytes;
	__u64 device_bytes;
	__u64 total_ns;
};

enum pgt_record { RECORD_QUERY = 1, RECORD_CHARGED, RECORD_SAMPLE };

/* One query as the client sees it; sent as it is, with as much of the text as there is. */
struct pgt_query {
	__u32 record; /* RECORD_QUERY */
	__u32 serial; /* of its task */
	__u64 number; /* counted within the task, from 1 */
	__u64 start_ns;
	__u64 end_ns;	   /* CLOCK_MONOTONIC, as start_ns */
	__u32 first_slot;  /* index + 1; 0: its task made no read for it */
	__u32 text_length; /* without the closing NUL */
	__u8 protocol;
	__u8 open;
	__u8 executed;	   /* portals that ran: 2, more than one */
	__u8 done;	   /* query__done was seen, or is not probed */
	__u8 failed;	   /* the transaction was aborted while it ran */
	__u8 begun_before; /* it was open when tracing began */
	__u8 cut;	   /* its text was longer than TEXT */
	__u8 several;	   /* statements were in it, so that query_id is none's */
	__u64 query_id;	   /* as the server computed it, or 0 */
	__u64 statement;   /* STATEMENT + index + 1, or OTHERS; 0: not yet looked for */
	__u64 waited_ns;   /* for asynchronous reads */
	char application_name[NAME];
	char text[TEXT];
};

/* A slot was taken by one task for reads that another pays. */
struct pgt_charged {
	__u32 record; /* RECORD_CHARGED */
	__u32 charged_to;
	__u64 query;
	__u32 slot; /* index + 1 */
	__u32 unused;
};

/* A call that changes a PgBackendStatus, as that was before it. */
struct pgt_sample {
	__u32 record; /* RECORD_SAMPLE */
	__u32 postmaster;
	__u32 tid;
	__u32 number; /* of the thread's calls: one that is missing was lost */
	__u64 ns;
	__u64 argument; /* the state, or the query id */
	__u32 of_id;	/* the call reports a query id */
	__u32 flag;	/* of a state: it has a text; of an id: it is forced */
	__u32 pid;	/* as its own PID namespace has it */
	__u32 unused;
	__u8 entry[ENTRY];
};

/* Statements are told apart by this. */
struct pgt_statement_key {
	__u32 charged_to;
	__u8 protocol;
	__u8 begun_before;
	__u8 cut;
	__u8 by_id; /* id is the server's query_id; else a hash of the text */
	__u64 id;
	__u64 application; /* hash of application_name */
};

/* All calls of one statement by one backend; only its thread writes to it. */
struct pgt_statement {
	struct pgt_statement_key key;
	__u64 query_id;
	struct pgt_calls sums;
	__u32 text_length;
	__u32 used; /* at some time */
	char application_name[NAME];
	char text[TEXT]; /* of the first call */
};

/* A file; or all files of one kind in one tablespace: then it is the first that was seen. */
struct pgt_file_entry {
	__u64 inode; /* 0: of many */
	__u64 space; /* inode of the directory that stands for its tablespace, or 0 */
	__u32 device;
	__u32 kind;
	__u64 relation;	  /* as identity_of() has it; 0: it is no relation's */
	__u64 base;	  /* where in the relation the file begins */
	__u32 generation; /* of the inode: tells it from a later one of its number */
	__u32 unused;
	char path[COMPONENTS][COMPONENT]; /* its name, then the directories' */
};

struct pgt_file_key {
	__u64 inode; /* of the file, or of the tablespace's directory */
	__u32 generation;
	__u32 device;
	__u32 kind;
	__u32 unused;
};

struct pgt_file_state {
	__u64 file;	/* struct file *, only compared */
	__u64 inode;	/* struct inode *, only compared */
	__u64 number;	/* i_ino and i_generation: the same inode, or another at its address? */
	__u64 identity; /* of the relation: its segments have the same */
	__u64 base;	/* where in the relation the file begins */
	__u64 window;	/* bytes that a scan may skip and still be one: the read-ahead */
	__u32 flags;
	__u32 entry;	    /* index in pgt_files */
	__u32 stream;	    /* index in streams[] */
	__u32 slot[CACHED]; /* index + 1, or 0; stale once the slot says something else */
	__u32 by_kind;	    /* index in pgt_files: of all files of its kind */
};

/* Where a relation was last read. */
struct pgt_stream {
	__u64 identity;
	__u64 next; /* or NOWHERE */
};

/* What is asked for, as a PgAioHandle has it (PgAioTargetData, src/include/storage/aio_types.h). */
struct pgt_blocks {
	__u32 tablespace;
	__u32 database;
	__u32 relation;
	__u32 first;
	__u32 number;
	__u32 fork; /* in its lowest byte */
};

/* Whom the read is for that a task is making, if not for itself. */
struct pgt_charge {
	__u32 charged_to; /* serial; 0: itself */
	__u32 asks;	  /* whether it ever asked, which no I/O worker does */
	__u64 query;
	__u64 queued_ns;
	__u32 pattern;
	__u32 known;		  /* the pattern is that of the request, not of this call */
	__u32 expected;		  /* it asked for a read that it makes itself, next */
	__u32 doubted;		  /* such a read did not come once */
	__u64 handle;		  /* with which it asked last, */
	struct pgt_blocks blocks; /* for these */
	__u64 submitted_ns;	  /* when it handed reads to others last */
};

/* Writes and fsyncs of one task that are in no histogram. */
struct pgt_excluded_writes {
	__u64 lost_writes;
	__u64 lost_syncs;
	struct pgt_excluded failed;
	struct pgt_excluded cut_short;
	struct pgt_excluded failed_syncs;
};

/* Requests of io_uring that completed in another thread than their task's. Whoever has a lane
 * counts in its slots, alone; the rest is added to by atomic operations, also by the task itself.
 */
struct pgt_completed {
	__u64 requests;
	__u64 lost;
	struct pgt_excluded failed;
	struct pgt_excluded cut_short;
	__u32 lanes[LANES]; /* 1: somebody has it */
};

/* A hash of a text, as far as it has come. What is yes or no is all ones or 0. */
struct pgt_hashing {
	__u64 hash;
	__u64 saved;
	__u64 state; /* of the scanner */
	__u64 blank; /* BLANK after white space */
	__u64 reading;
	__u64 plain;   /* whether the last string was */
	__u64 escapes; /* and whether a backslash in it does */
	__u64 ambiguous;
	__u64 tag; /* hash of what is between two dollar signs */
	__u64 opened;
	__u64 depth; /* of comments */
};

/* Where a text that may have nothing but comments is, as far as it was looked through. */
struct pgt_passed {
	__u64 line;  /* in a comment up to the end of the line */
	__u64 depth; /* of comments */
	__u64 held;  /* a character that may begin or end one with the next, or 0 */
};

/* A statement of a task's, with the hash of the application_name that it had then. */
struct pgt_recent {
	__u64 query_id;
	__u64 application;
	__u64 statement;
};

/* The light tier: what a task ran when it was last looked at. */
struct pgt_seen {
	__u64 entry; /* its PgBackendStatus */
	__u64 start;
	__u64 query_id;
	__u64 statement; /* 0: none */
	__u64 looked_ns;
	__u64 last_start; /* of the statement that it showed last, which may be over */
	__u64 last_id;
	__u64 last_statement; /* that was found for it; 0: none yet */
	__u32 changes;
	__u32 known;			  /* the rest is true as long as these changes are all */
	__u8 head[HEAD];		  /* scratch: where its entry begins */
	struct pgt_recent recent[RECENT]; /* by the last bits of their ids */
};

/* Where the time of a task goes: counted up to in_ns, or up to out_ns where it left a CPU since. */
struct pgt_times {
	__u64 in_ns;	 /* since when it is on a CPU; 0: not known yet */
	__u64 out_ns;	 /* when it left one; 0: what came of it is counted */
	__u64 run_delay; /* the kernel's sum of waiting for a CPU, then */
	__u64 clock_ns;	 /* by how much our clock was ahead of its run queue's, then; 0: unknown */
	__u64 left_ns;	 /* when it left one in the midst of a program of ours, or 0 */
	__u64 preempted_ns; /* it waited for a CPU then */
	__u64 stolen;	    /* the kernel's sum for this CPU, up to in_ns */
	__u64 query;	    /* that it left it in */
	__u64 start;	    /* seen.last_start then */
	__u32 event;	    /* that it waits for since out_ns; 0: it could run */
	__u32 busy;	    /* a program of ours is changing what others change, too */
	__u32 in_read;	    /* it left a CPU in the midst of one */
	__u32 unused;
	__u32 slot[TIMED]; /* index + 1, or 0; stale once the slot says something else */
};

/* What is known of one traced thread. Only that thread writes to it, except where it says so. What
 * is looked at at each switch of tasks lies together: by then others have taken the CPU's caches.
 */
struct pgt_task {
	__u32 ignored; /* by user space: of no interest, not all probes are there, or it is over */
	__u32 serial;  /* by user space, before the task is taken: never used twice */
	__u32 postmaster; /* its parent when it was first seen */
	__u32 index;	  /* in pgt_tasks */
	__u32 tid;
	__u32 tgid;
	__u32 server;	/* where in `live` it was when it was last looked for */
	__u32 file;	/* index in files[] */
	__u64 start_ns; /* of the read in flight; 0: none */
	__u64 read_bytes;
	__u64 switches;
	__u64 asked;
	__u64 position;
	__u64 started_for; /* of a parallel worker: its leader's statement, which may be TO_ASK;
			      0: not known */
	__u64 application; /* hash of its query's application_name */
	struct pgt_times times;
	struct pgt_seen seen;
	__u32 files_used; /* ever: more than FILES means that some were forgotten */
	__u32 streams_used;
	__u32 operation;   /* of what other_ns is the begin */
	__u32 chosen;	   /* scratch */
	__u32 folding;	   /* odd while a query's slots are put to its statement's */
	__u32 exit_code;   /* as wait() tells it; 0: it left by itself, or runs */
	__u64 other_ns;	   /* of the write or fsync in flight; 0: none */
	__u64 began_ns;	   /* when it was first seen */
	__u64 ended_ns;	   /* 0 while it runs */
	__u64 site;	   /* whence the text of its query was reported, without USDT */
	__u64 portal_site; /* one of two places from which it is reported that a portal ran, */
	__u32 portals[2];  /* and how many its query reported from there, and from the other */
	__u64 named_at;	   /* where its application_name was read, or 0 */
	__u64 lost_reads;
	__u64 lost_queries;
	struct pgt_charge charge;
	struct pgt_excluded failed;
	struct pgt_excluded cut_short;
	struct pgt_excluded_writes writes;
	__u64 ignored_file; /* what was read last of what does not count: a signalfd, /proc */
	__u64 ignored_inode;
	__u64 last_request; /* struct io_kiocb *: who asked the device since request_bytes */
	__u64 request_bytes;
	__u64 requests; /* of io_uring: submitted, less those that completed in this thread */
	struct pgt_completed completed;
	__u64 wait_start_ns; /* it waits for an asynchronous read */
	struct pgt_hashing hashing;
	struct pgt_passed passed;
	__u64 words; /* scratch: the hash of a text by its words */
	struct pgt_file_state files[FILES];
	struct pgt_stream streams[FILES];
	__u64 written[FILES];	     /* of the relation in streams[]: where its last write ended */
	struct pgt_file_entry found; /* scratch: what a new file is */
	struct pgt_calls others;     /* of statements for which there was no room */
	char title[TITLE]; /* as it was when the task was first seen, or ran its first query */
	struct pgt_query query;
	char text[TEXT];  /* scratch: the text that a probe brought */
	__u64 born_ns;	  /* when its process began; 0: before tracing */
	__u32 missed;	  /* it left a CPU or came on one while it was ignored */
	__u32 inner_tgid; /* as its own PID namespace has it */
	__u32 was_idle;	  /* by user space: it ran no query when tracing began */
	__u32 unused;
	__u64 padding[3]; /* as a slot's: all tasks have their fields on the same lines */
};

struct pgt_leader_key {
	__u32 postmaster;
	__u32 inner_tgid;
};

/* PostgreSQL 18: a read of a relation that was asked for, and that nobody has begun yet. No other
 * entry has its blocks meanwhile: the asker holds their buffers (StartBufferIO()). */
struct pgt_asked_key {
	__u64 relation; /* as in pgt_file_entry */
	__u64 position; /* in the relation */
	__u32 postmaster;
	__u32 unused;
};

struct pgt_asked {
	__u32 charged_to; /* serial of who asked */
	__u32 forgotten;  /* "never seen" and "forgotten" looked alike */
	__u64 query;
	__u64 asked_ns;
	__u64 length;
	__u64 next; /* where the last one of the relation ended, or NOWHERE */
};

/* What is told apart of reads: whose slot it is. */
struct pgt_slot_key {
	__u32 owner;
	__u32 charged_to;
	__u64 query;
	__u32 key;
	__u32 file;
};

#endif
