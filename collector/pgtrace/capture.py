"""The capture: what one tracing session measured, and the file that holds it.

The file is JSON, schema "pgtrace.capture/1". Keys may be added, never changed in meaning.
Times are nanoseconds, sizes bytes; `[low, high, count]` means low <= value < high.
"""

import os
import re
import stat
import sys
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Self

import msgspec

from .errors import UsageError

SCHEMA = "pgtrace.capture/1"

Operation = Literal["read", "write", "fsync"]
Source = Literal["page_cache", "readahead_issued", "device", "wait", "unknown"]
Pattern = Literal["sequential", "near", "random", "first", "unknown"]
Size = Literal["1", "2-4", "5-15", "16+"]
Performer = Literal["backend", "parallel worker", "io worker", "io_uring"]
Scope = Literal["query", "outside"]
Kind = Literal[
    "relation",
    "heap",
    "index",
    "toast",
    "visibility map",
    "free space map",
    "temporary",
    "wal",
    "slru",
    "other",
    "unknown",
]
"""What a file holds. relation: a heap, an index, TOAST or a sequence; which, is known only with a
database connection."""
Protocol = Literal["simple", "extended", "unknown"]
"""unknown: the query began before tracing did, and nothing has told since."""
Bucket = tuple[int, int, int]


class Host(msgspec.Struct):
    """Where it was measured."""

    kernel: str
    cpus: int


class Server(msgspec.Struct):
    """The server of the traced backends; None is what could not be found out."""

    version: str | None = None
    postmaster_pid: int | None = None
    data_directory: str | None = None
    block_size: int = 8192


class Probes(msgspec.Struct):
    """How it was measured, and what was not."""

    engine: Literal["libbpf", "bcc"]
    reads: Literal["fentry", "kprobe", "tracepoint"]
    queries: Literal["usdt", "uprobe", "none"]
    not_measured: list[str] = []
    no_query_ids: str | None = None
    """Why no query has a query_id; None if they have."""
    shortest_ns: int | None = None
    """The shortest read seen: what is shorter, this way in cannot show."""


class Lost(msgspec.Struct):
    """Events that happened and are in no number of this capture, except as counted here."""

    reads: int = 0
    queries: int = 0
    in_flight: int = 0
    """Reads still under way when tracing stopped."""
    backends: int = 0
    """Processes that there was no room for: nothing of theirs was counted."""


class Apart(msgspec.Struct):
    """Reads that failed, or came short: in no histogram."""

    count: int = 0
    bytes: int = 0
    device_bytes: int = 0
    total_ns: int = 0


class Totals(msgspec.Struct):
    """Sums over every backend's reads. `blocks` is None where the block size is unknown."""

    reads: int = 0
    bytes: int = 0
    blocks: int = 0
    read_ns: int = 0
    device_bytes: int = 0
    failed: int = 0
    short: int = 0


class HistogramData(msgspec.Struct):
    """A histogram as it is stored: only the buckets that are not empty, in order."""

    unit: Literal["ns"] = "ns"
    buckets: list[Bucket] = []


class Reads(msgspec.Struct):
    """Reads that agree in everything a report can tell apart, with their latencies."""

    source: Source
    pattern: Pattern
    size: Size
    scope: Scope
    count: int
    bytes: int
    blocks: int
    device_bytes: int
    total_ns: int
    min_ns: int
    max_ns: int
    histogram: HistogramData
    operation: Operation = "read"
    kind: Kind = "unknown"
    tablespace: str | None = None
    """Its name, or its oid where no connection told it; None for what lies in none."""
    relation: str | None = None
    """With `--by relation`: `schema.relation`, or the path within the data directory."""
    performed_by: Performer = "backend"
    queued_ns: int | None = None
    """How long the requests lay waiting for an I/O worker, in all; not in total_ns."""
    direct: bool = False


class Latency(msgspec.Struct):
    """Latencies of a statement's calls, as the server saw them."""

    count: int = 0
    total_ns: int = 0
    min_ns: int = 0
    max_ns: int = 0
    unit: Literal["ns"] = "ns"
    buckets: list[Bucket] = []


class Query(msgspec.Struct):
    """One statement, with all its calls and the reads that they made."""

    text: str | None
    protocol: Protocol
    calls: int
    errors: int
    latency: Latency
    reads: list[Reads] = []
    query_id: int | None = None
    """The server's own; None where it computes none, or for several statements in one query."""
    text_hash: str | None = None
    """Of the text without its literals: the same text has the same, in this capture."""
    waited_ns: int | None = None
    """How long its backend waited for asynchronous reads; None where that is not measured."""
    text_cut: bool = False
    begun_before: bool = False
    """Its one call began before tracing did: the latency counts from the start of tracing."""
    application_name: str | None = None
    """Of the client that ran it: behind a pooler one backend serves many."""
    unfinished: bool = False
    """Its one call had not ended when tracing did: calls is 0, and there is no latency."""


class Backend(msgspec.Struct):
    """One server process. None is what could not be found out."""

    pid: int
    backend_type: str | None = None
    datname: str | None = None
    usename: str | None = None
    application_name: str | None = None
    reads: list[Reads] = []
    failed: Apart = msgspec.field(default_factory=Apart)
    short: Apart = msgspec.field(default_factory=Apart)
    queries: list[Query] = []
    began: str | None = None
    """When it was first seen, and when it ended, if that was while tracing; UTC, ISO 8601."""
    ended: str | None = None
    merged: int | None = None
    """How many backends that ended are added up here; their pids are not told."""


class Tablespace(msgspec.Struct):
    """Where files that were read lie. `name` is that of Reads.tablespace."""

    name: str
    location: str | None = None
    filesystem: str | None = None
    device: str | None = None
    rotational: bool | None = None
    read_ahead_kb: int | None = None
    simulated: bool = False
    """Its device is one of `scripts/storage`."""


class Cost(msgspec.Struct):
    """Reads of one second that agree in what decides their cost: blocks are the server's."""

    tablespace: str | None
    pattern: Pattern
    source: Source
    size: Size
    blocks: int
    total_ns: int
    reads: int
    performed_by: Performer = "backend"
    """Parallel workers read for themselves here: only what overlaps with the backend's work is
    told apart."""


class Interval(msgspec.Struct):
    """What was read in about one second of the session; `second` counts from its start."""

    second: float
    costs: list[Cost]


class Buffers(msgspec.Struct):
    """What one database asked shared_buffers for during the session, as pg_stat_database has it."""

    datname: str | None
    """None: relations that all databases share."""
    hit: int
    """Blocks that were found there."""
    read: int
    """Blocks that were not."""


class Gap(msgspec.Struct):
    """A server was away: from its postmaster's end until its next one was traced."""

    data_directory: str
    began: str
    ended: str | None
    """None: it did not come back."""


class Capture(msgspec.Struct):
    """Everything one session measured. `started` is UTC, ISO 8601."""

    started: str
    duration_s: float
    host: Host
    server: Server
    probes: Probes
    lost: Lost
    totals: Totals
    backends: list[Backend]
    gaps: list[Gap] = []
    tablespaces: list[Tablespace] = []
    intervals: list[Interval] = []
    """The session in pieces, of reads of relations: how much their costs vary."""
    buffers: list[Buffers] = []
    """With a connection; only what the server said at the start and at the end."""
    schema: str = SCHEMA

    def add_up(self) -> Self:
        """Set what follows from the backends' reads, and return the capture."""
        reads = [reads for backend in self.backends for reads in backend.reads]
        self.totals = _totals(self.backends)
        self.probes.shortest_ns = min((r.min_ns for r in reads), default=None)
        return self


def _totals(backends: list[Backend]) -> Totals:
    reads = [reads for backend in backends for reads in backend.reads]
    return Totals(
        reads=sum(r.count for r in reads),
        bytes=sum(r.bytes for r in reads),
        blocks=sum(r.blocks for r in reads),
        read_ns=sum(r.total_ns for r in reads),
        device_bytes=sum(r.device_bytes for r in reads),
        failed=sum(backend.failed.count for backend in backends),
        short=sum(backend.short.count for backend in backends),
    )


def encode(capture: Capture) -> bytes:
    """Return the capture as indented JSON, its schema first, each bucket on one line."""
    members = msgspec.to_builtins(capture)
    ordered = {"schema": members.pop("schema"), **members}
    text = msgspec.json.format(msgspec.json.encode(ordered), indent=2)
    # Strings hold no line breaks in JSON, so that only lists of three numbers can match.
    return re.sub(rb"\[\n\s+(\d+),\n\s+(\d+),\n\s+(\d+)\n\s+\]", rb"[\1, \2, \3]", text) + b"\n"


def load(path: Path | str) -> Capture:
    """Read a capture from a file, or from stdin if `path` is "-".

    Raises UsageError if it cannot be read, is no capture, or contradicts itself.
    """
    name = "stdin" if str(path) == "-" else str(path)
    try:
        raw = sys.stdin.buffer.read() if str(path) == "-" else Path(path).read_bytes()
    except FileNotFoundError as error:
        raise UsageError(f"{name}: no such file") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"{name} cannot be read: {_reason(error)}") from error
    try:
        _check_schema(name, raw)
        capture = msgspec.json.decode(raw, type=Capture)
        _check_numbers(msgspec.to_builtins(capture), "$")
        _check_meaning(capture)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name} is not a whole capture: {error}") from error
    return capture


class _Head(msgspec.Struct):
    schema: str | None = None


def _check_schema(name: str, raw: bytes) -> None:
    if not raw.strip():
        raise UsageError(f"{name} is empty")
    try:
        try:
            schema = msgspec.json.decode(raw, type=_Head).schema
        except msgspec.ValidationError:  # which comes before what follows is looked at
            msgspec.json.decode(raw)
            schema = None
    except msgspec.DecodeError as error:
        if "truncated" in str(error):
            raise UsageError(f"{name} ends too early: it was cut, or is still written") from error
        raise UsageError(f"{name} is not JSON: {error}") from error
    kind = (schema or "").partition("/")[0]
    if kind == "pgtrace.lab":
        raise UsageError(f"{name} is the result of a lab experiment, not a capture ({schema})")
    if kind != "pgtrace.capture":
        raise UsageError(f"{name} is not a capture: it is JSON of another program")
    if schema != SCHEMA:
        raise UsageError(f"{name} is a {schema}; this pgtrace reads /1: upgrade pgtrace")


def _check_numbers(value: Any, path: str) -> None:
    """Raise ValueError for a number that counts nothing: all but a query_id count something."""
    if isinstance(value, dict):
        for key, member in value.items():
            if key != "query_id":
                _check_numbers(member, f"{path}.{key}")
    elif isinstance(value, (list, tuple)):
        for index, member in enumerate(value):
            _check_numbers(member, f"{path}[{index}]")
    elif isinstance(value, (int, float)) and not 0 <= value <= 1 << 64:
        raise ValueError(f"{value} cannot be - at `{path}`")


def _check_meaning(capture: Capture) -> None:
    """Raise ValueError where the parts of a capture contradict each other."""
    from .histogram import Histogram

    datetime.fromisoformat(capture.started)
    for backend in capture.backends:
        reads = [*backend.reads, *(r for query in backend.queries for r in query.reads)]
        latencies = [query.latency for query in backend.queries]
        for buckets in [*(r.histogram.buckets for r in reads), *(x.buckets for x in latencies)]:
            Histogram.from_buckets(buckets, 0, 0, 0)
    given = msgspec.structs.asdict(capture.totals)
    summed = msgspec.structs.asdict(_totals(capture.backends))
    for key, value in given.items():
        if value != summed[key]:
            raise ValueError(f"totals.{key} is {value}, but the backends' sum is {summed[key]}")


def check_writable(path: Path | str, force: bool = False) -> None:
    """Raise UsageError if write() would refuse `path`: asked before a long session, not after."""
    path = Path(path)
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise UsageError(f"{path.parent}: no such directory") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be written: {_reason(error)}") from error
    else:
        if stat.S_ISLNK(mode):
            # Followed as root, another user's link would overwrite any file.
            raise UsageError(f"{path} is a symbolic link; name the file that it stands for")
        if _is_stream(mode):
            return
        if not stat.S_ISREG(mode):
            raise UsageError(f"{path} is not a file")
        if not force:
            raise UsageError(f"{path} exists; --force overwrites it")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise UsageError(f"{path.parent}: files cannot be made there by this user")


def write(capture: Capture, path: Path | str, force: bool = False) -> None:
    """Write the capture, for its owner alone; there is never half a file under its name.

    Raises UsageError if it cannot be written there, or exists and `force` is not given.
    """
    write_file(encode(capture), path, force)


def write_file(data: bytes, path: Path | str, force: bool = False) -> None:
    """Write a file as write() does, with its errors; to a device or a pipe as that is."""
    path = Path(path)
    check_writable(path, force)
    try:
        if path.exists() and _is_stream(path.lstat().st_mode):
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_NOFOLLOW), "wb") as stream:
                stream.write(data)
        else:
            _replace(data, path, force)
    except FileExistsError as error:
        raise UsageError(f"{path} exists; --force overwrites it") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {_reason(error)}") from error


def _replace(data: bytes, path: Path, force: bool) -> None:
    import tempfile

    handle, temporary = tempfile.mkstemp(prefix=".pgtrace-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if force or not _linked(temporary, path):
            Path(temporary).replace(path)
    finally:
        Path(temporary).unlink(missing_ok=True)


def _linked(temporary: str, path: Path) -> bool:
    """Give a file its name unless somebody else just took it; False where links cannot be."""
    try:
        path.hardlink_to(temporary)
    except FileExistsError:
        raise
    except OSError:
        return False
    return True


def _is_stream(mode: int) -> bool:
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
