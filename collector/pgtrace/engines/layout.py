"""bpf/pgtrace.h in Python: the structures that both halves share.

tests/unit/test_layout.py compiles the header and holds every size and offset against these.
"""

import ctypes
from ctypes import c_char, c_int32, c_uint8, c_uint32, c_uint64

from ..model.capture import (
    Call,
    Kind,
    Operation,
    Pattern,
    Performer,
    PieceKind,
    Protocol,
    Scope,
    Size,
    Source,
)

SUBS = 16
CHUNKS = 38
FILES = 16
CACHED = 32
RECENT = 32
TIMED = 32
COMPONENTS = 4
COMPONENT = 40
TEXT = 1024
CERTAIN = 3
SERVERS = 16
TITLE = 160
NAME = 64
PLACES = 4096
NOBODY = 0xFFFFFFFF
LANES = 16
LANE = 0xFFFFFF00
ENTRY = 768
HEAD = 64
STATEMENT = 1 << 62
OTHERS = STATEMENT - 1
TO_ASK = 1 << 63
COOKIE_REGISTER = 0xFFFF
COOKIE_IN_MEMORY = 0x10000

OPERATIONS: tuple[Operation | Call, ...] = (
    "read",
    "write",
    "fsync",
    "fdatasync",
    "sync_file_range",
)
SOURCES: tuple[Source, ...] = ("page_cache", "readahead_issued", "device", "wait", "unknown")
PATTERNS: tuple[Pattern, ...] = ("sequential", "near", "random", "first", "unknown")
KINDS: tuple[Kind, ...] = (
    "unknown",
    "relation",
    "visibility map",
    "free space map",
    "temporary",
    "wal",
    "slru",
    "other",
)
SIZES: tuple[Size, ...] = ("1", "2-4", "5-15", "16+")
SCOPES: tuple[Scope, ...] = ("outside", "query")
PERFORMERS: tuple[Performer, ...] = ("backend", "io_uring")
CHECKPOINT_PHASES = ("begin", "write", "sync", "synced", "end")
PROTOCOLS: tuple[Protocol, ...] = ("unknown", "simple", "extended")
KEYS = (
    len(SCOPES) * len(OPERATIONS) * len(PERFORMERS) * 2 * len(SIZES) * len(PATTERNS) * len(SOURCES)
)
TIMES: tuple[PieceKind, ...] = ("cpu", "run_queue", "sleep", "stolen", "run_queue_in_read")
ALL_KEYS = KEYS + len(SCOPES) * len(TIMES)
KERNEL_SLEEP = 0xFF000000
SIMPLE = 1
RECORD_QUERY = 1
RECORD_CHARGED = 2
RECORD_SAMPLE = 3


class Options(ctypes.Structure):
    """struct pgt_options."""

    _fields_ = (
        ("segment_bytes", c_uint64),
        ("only_tid", c_uint32),
        ("listed", c_uint32),
        ("children", c_uint32),
        ("block_shift", c_uint32),
        ("emit_durations", c_uint32),
        ("helpers_only", c_uint32),
        ("no_usdt", c_uint32),
        ("by_file", c_uint32),
        ("per_query", c_uint32),
        ("page_bytes", c_uint32),
        ("literals", c_uint32),
        ("writes", c_uint32),
        ("spare_slots", c_uint32),
        ("spare_chunks", c_uint32),
        ("cookies", c_uint32),
        ("light", c_uint32),
        ("times", c_uint32),
        ("done", c_uint32),
        ("asked", c_uint32),
    )


class Memory(ctypes.Structure):
    """struct pgt_memory."""

    _fields_ = (
        ("entry", c_uint64),
        ("text", c_uint64),
        ("wait", c_uint64),
        ("found", c_uint32),
        ("sampled", c_int32),
        ("running", c_uint32),
        ("changes", c_uint32),
        ("state", c_uint32),
        ("start", c_uint32),
        ("query_id", c_uint32),
        ("pid", c_uint32),
        ("round", c_uint32),
        ("unused", c_uint32),
    )


class Handles(ctypes.Structure):
    """struct pgt_handles."""

    _fields_ = (
        ("submitted", c_uint32),
        ("place", c_uint32),
        ("agreed", c_uint32),
        ("noted", c_uint32),
    )


class Live(ctypes.Structure):
    """struct pgt_live."""

    _fields_ = (
        ("application_name", c_uint64 * SERVERS),
        ("postmasters", c_uint32 * SERVERS),
        ("io_workers", c_uint32 * SERVERS),
        ("orphans", c_uint32),
        ("no_switch", c_uint32),
        ("lost_tasks", c_uint64),
        ("lost", c_uint64 * len(OPERATIONS)),
        ("no_slot", c_uint64),
        ("no_chunk", c_uint64),
        ("lost_latencies", c_uint64),
        ("lost_queries", c_uint64),
        ("by_kind", c_uint64),
        ("checkpoint_ns", c_uint64 * len(CHECKPOINT_PHASES)),
        ("memory", Memory * SERVERS),
        ("unseen", c_uint64),
        ("lost_times", c_uint64),
        ("parents", c_uint64 * SERVERS),
        ("followed", c_uint64),
        ("begun", c_uint64),
        ("handles", Handles * SERVERS),
    )

    def place_of(self, postmaster: int) -> int | None:
        """Where the server of a postmaster is; None: it is none that is traced."""
        return next((i for i, pid in enumerate(self.postmasters) if pid == postmaster), None)


class Slot(ctypes.Structure):
    """struct pgt_slot."""

    _fields_ = (
        ("owner", c_uint32),
        ("charged_to", c_uint32),
        ("query", c_uint64),
        ("key", c_uint32),
        ("next", c_uint32),
        ("file", c_uint32),
        ("unused", c_uint32),
        ("count", c_uint64),
        ("total_ns", c_uint64),
        ("min_ns", c_uint64),
        ("max_ns", c_uint64),
        ("bytes", c_uint64),
        ("device_bytes", c_uint64),
        ("queued_ns", c_uint64),
        ("chunk", c_uint32 * CHUNKS),
        ("padding", c_uint64 * 2),
    )


class Chunk(ctypes.Structure):
    """struct pgt_chunk."""

    _fields_ = (("count", c_uint64 * SUBS),)


class Calls(ctypes.Structure):
    """struct pgt_calls."""

    _fields_ = (
        ("calls", c_uint64),
        ("errors", c_uint64),
        ("total_ns", c_uint64),
        ("min_ns", c_uint64),
        ("max_ns", c_uint64),
        ("waited_ns", c_uint64),
        ("chunk", c_uint32 * CHUNKS),
    )


class Excluded(ctypes.Structure):
    """struct pgt_excluded."""

    _fields_ = (
        ("count", c_uint64),
        ("bytes", c_uint64),
        ("device_bytes", c_uint64),
        ("total_ns", c_uint64),
    )


class ExcludedWrites(ctypes.Structure):
    """struct pgt_excluded_writes."""

    _fields_ = (
        ("lost_writes", c_uint64),
        ("lost_syncs", c_uint64),
        ("failed", Excluded),
        ("cut_short", Excluded),
        ("failed_syncs", Excluded),
    )


class Completed(ctypes.Structure):
    """struct pgt_completed."""

    _fields_ = (
        ("requests", c_uint64),
        ("lost", c_uint64),
        ("failed", Excluded),
        ("cut_short", Excluded),
        ("lanes", c_uint32 * LANES),
    )


class QueryRecord(ctypes.Structure):
    """struct pgt_query."""

    _fields_ = (
        ("record", c_uint32),
        ("serial", c_uint32),
        ("number", c_uint64),
        ("start_ns", c_uint64),
        ("end_ns", c_uint64),
        ("first_slot", c_uint32),
        ("text_length", c_uint32),
        ("protocol", c_uint8),
        ("open", c_uint8),
        ("executed", c_uint8),
        ("done", c_uint8),
        ("failed", c_uint8),
        ("begun_before", c_uint8),
        ("cut", c_uint8),
        ("several", c_uint8),
        ("query_id", c_uint64),
        ("statement", c_uint64),
        ("waited_ns", c_uint64),
        ("application_name", c_char * NAME),
        ("text", c_char * TEXT),
    )


class Charged(ctypes.Structure):
    """struct pgt_charged."""

    _fields_ = (
        ("record", c_uint32),
        ("charged_to", c_uint32),
        ("query", c_uint64),
        ("slot", c_uint32),
        ("unused", c_uint32),
    )


class Sample(ctypes.Structure):
    """struct pgt_sample."""

    _fields_ = (
        ("record", c_uint32),
        ("postmaster", c_uint32),
        ("tid", c_uint32),
        ("number", c_uint32),
        ("ns", c_uint64),
        ("argument", c_uint64),
        ("of_id", c_uint32),
        ("flag", c_uint32),
        ("pid", c_uint32),
        ("unused", c_uint32),
        ("entry", c_uint8 * ENTRY),
    )


class StatementKey(ctypes.Structure):
    """struct pgt_statement_key."""

    _fields_ = (
        ("charged_to", c_uint32),
        ("protocol", c_uint8),
        ("begun_before", c_uint8),
        ("cut", c_uint8),
        ("by_id", c_uint8),
        ("id", c_uint64),
        ("application", c_uint64),
    )


class Statement(ctypes.Structure):
    """struct pgt_statement."""

    _fields_ = (
        ("key", StatementKey),
        ("query_id", c_uint64),
        ("sums", Calls),
        ("text_length", c_uint32),
        ("used", c_uint32),
        ("application_name", c_char * NAME),
        ("text", c_char * TEXT),
    )


class FileEntry(ctypes.Structure):
    """struct pgt_file_entry."""

    _fields_ = (
        ("inode", c_uint64),
        ("space", c_uint64),
        ("device", c_uint32),
        ("kind", c_uint32),
        ("relation", c_uint64),
        ("base", c_uint64),
        ("generation", c_uint32),
        ("unused", c_uint32),
        ("path", c_char * COMPONENT * COMPONENTS),
    )


class FileKey(ctypes.Structure):
    """struct pgt_file_key."""

    _fields_ = (
        ("inode", c_uint64),
        ("generation", c_uint32),
        ("device", c_uint32),
        ("kind", c_uint32),
        ("unused", c_uint32),
    )


class FileState(ctypes.Structure):
    """struct pgt_file_state."""

    _fields_ = (
        ("file", c_uint64),
        ("inode", c_uint64),
        ("number", c_uint64),
        ("identity", c_uint64),
        ("base", c_uint64),
        ("window", c_uint64),
        ("flags", c_uint32),
        ("entry", c_uint32),
        ("stream", c_uint32),
        ("slot", c_uint32 * CACHED),
        ("by_kind", c_uint32),
    )


class Stream(ctypes.Structure):
    """struct pgt_stream."""

    _fields_ = (
        ("identity", c_uint64),
        ("next", c_uint64),
    )


class Blocks(ctypes.Structure):
    """struct pgt_blocks."""

    _fields_ = (
        ("tablespace", c_uint32),
        ("database", c_uint32),
        ("relation", c_uint32),
        ("first", c_uint32),
        ("number", c_uint32),
        ("fork", c_uint32),
    )


class Charge(ctypes.Structure):
    """struct pgt_charge."""

    _fields_ = (
        ("charged_to", c_uint32),
        ("asks", c_uint32),
        ("query", c_uint64),
        ("queued_ns", c_uint64),
        ("pattern", c_uint32),
        ("known", c_uint32),
        ("expected", c_uint32),
        ("doubted", c_uint32),
        ("handle", c_uint64),
        ("blocks", Blocks),
        ("submitted_ns", c_uint64),
    )


class Hashing(ctypes.Structure):
    """struct pgt_hashing."""

    _fields_ = (
        ("hash", c_uint64),
        ("saved", c_uint64),
        ("state", c_uint64),
        ("blank", c_uint64),
        ("reading", c_uint64),
        ("plain", c_uint64),
        ("escapes", c_uint64),
        ("ambiguous", c_uint64),
        ("tag", c_uint64),
        ("opened", c_uint64),
        ("depth", c_uint64),
    )


class Passed(ctypes.Structure):
    """struct pgt_passed."""

    _fields_ = (("line", c_uint64), ("depth", c_uint64), ("held", c_uint64))


class Recent(ctypes.Structure):
    """struct pgt_recent."""

    _fields_ = (
        ("query_id", c_uint64),
        ("application", c_uint64),
        ("statement", c_uint64),
    )


class Seen(ctypes.Structure):
    """struct pgt_seen."""

    _fields_ = (
        ("entry", c_uint64),
        ("start", c_uint64),
        ("query_id", c_uint64),
        ("statement", c_uint64),
        ("looked_ns", c_uint64),
        ("last_start", c_uint64),
        ("last_id", c_uint64),
        ("last_statement", c_uint64),
        ("changes", c_uint32),
        ("known", c_uint32),
        ("head", c_uint8 * HEAD),
        ("recent", Recent * RECENT),
    )


class Times(ctypes.Structure):
    """struct pgt_times."""

    _fields_ = (
        ("in_ns", c_uint64),
        ("out_ns", c_uint64),
        ("run_delay", c_uint64),
        ("clock_ns", c_uint64),
        ("left_ns", c_uint64),
        ("preempted_ns", c_uint64),
        ("stolen", c_uint64),
        ("query", c_uint64),
        ("start", c_uint64),
        ("event", c_uint32),
        ("busy", c_uint32),
        ("in_read", c_uint32),
        ("unused", c_uint32),
        ("slot", c_uint32 * TIMED),
    )


class Task(ctypes.Structure):
    """struct pgt_task."""

    _fields_ = (
        ("ignored", c_uint32),
        ("serial", c_uint32),
        ("postmaster", c_uint32),
        ("index", c_uint32),
        ("tid", c_uint32),
        ("tgid", c_uint32),
        ("server", c_uint32),
        ("file", c_uint32),
        ("start_ns", c_uint64),
        ("read_bytes", c_uint64),
        ("switches", c_uint64),
        ("asked", c_uint64),
        ("position", c_uint64),
        ("started_for", c_uint64),
        ("application", c_uint64),
        ("times", Times),
        ("seen", Seen),
        ("files_used", c_uint32),
        ("streams_used", c_uint32),
        ("operation", c_uint32),
        ("chosen", c_uint32),
        ("folding", c_uint32),
        ("exit_code", c_uint32),
        ("other_ns", c_uint64),
        ("began_ns", c_uint64),
        ("ended_ns", c_uint64),
        ("site", c_uint64),
        ("portal_site", c_uint64),
        ("portals", c_uint32 * 2),
        ("named_at", c_uint64),
        ("lost_reads", c_uint64),
        ("lost_queries", c_uint64),
        ("charge", Charge),
        ("failed", Excluded),
        ("cut_short", Excluded),
        ("writes", ExcludedWrites),
        ("ignored_file", c_uint64),
        ("ignored_inode", c_uint64),
        ("last_request", c_uint64),
        ("request_bytes", c_uint64),
        ("requests", c_uint64),
        ("completed", Completed),
        ("wait_start_ns", c_uint64),
        ("hashing", Hashing),
        ("passed", Passed),
        ("words", c_uint64),
        ("files", FileState * FILES),
        ("streams", Stream * FILES),
        ("written", c_uint64 * FILES),
        ("found", FileEntry),
        ("others", Calls),
        ("title", c_char * TITLE),
        ("query", QueryRecord),
        ("scratch", c_char * TEXT),
        ("born_ns", c_uint64),
        ("missed", c_uint32),
        ("inner_tgid", c_uint32),
        ("was_idle", c_uint32),
        ("unused", c_uint32),
        ("padding", c_uint64 * 3),
    )


class LeaderKey(ctypes.Structure):
    """struct pgt_leader_key."""

    _fields_ = (
        ("postmaster", c_uint32),
        ("inner_tgid", c_uint32),
    )


class AskedKey(ctypes.Structure):
    """struct pgt_asked_key."""

    _fields_ = (
        ("relation", c_uint64),
        ("position", c_uint64),
        ("postmaster", c_uint32),
        ("unused", c_uint32),
    )


class Asked(ctypes.Structure):
    """struct pgt_asked."""

    _fields_ = (
        ("charged_to", c_uint32),
        ("forgotten", c_uint32),
        ("query", c_uint64),
        ("asked_ns", c_uint64),
        ("length", c_uint64),
        ("next", c_uint64),
    )


class SlotKey(ctypes.Structure):
    """struct pgt_slot_key."""

    _fields_ = (
        ("owner", c_uint32),
        ("charged_to", c_uint32),
        ("query", c_uint64),
        ("key", c_uint32),
        ("file", c_uint32),
    )
