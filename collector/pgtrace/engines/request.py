"""What is asked of an engine."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from ..linux.program_file import Identity, Program
from ..model.capture import EngineName, Operation

ProbeType = Literal["fentry", "kprobe", "tracepoint"]
"""A probe type for reads, and for other operations."""
OPERATIONS: tuple[Operation, ...] = ("read", "write", "fsync")
Tier = Literal["full", "light", "none"]
"""How much of queries is measured. light: no probe waits in the server, and what a query read is
known, but neither how often it was called nor how long it took."""
BLOCK_SIZE = 8192
"""In bytes, where a server's own is not known: PostgreSQL's, unless it was built with another."""


Probed = tuple[Program, int]
"""Where to put probes: the file, which is open until they are there, and the process, or -1 for all
that run it."""


class Member(NamedTuple):
    """A thread that runs already; 0 is what is not known of it."""

    tid: int
    pid: int
    inner_pid: int = 0
    """As its own PID namespace has it."""
    postmaster: int = 0
    start_time_ticks: int = 0
    """Of clock ticks since boot; whether it is that one still is looked at once all is attached."""


class Postmaster(NamedTuple):
    """What the kernel has to know of a server."""

    pid: int
    application_name: int = 0
    """Where in its processes' memory the pointer to it is; 0: not known."""
    io_workers: bool = False
    """Its backends leave reads to them."""
    io_uring: bool = False
    """Its backends leave reads to it."""
    entry: int = 0
    """As application_name: to what it shows of itself in pg_stat_activity, MyBEEntry."""
    text: int = 0
    """As application_name: to the text of the statement that it runs, debug_query_string."""
    wait: int = 0
    """As application_name: to what it waits for, my_wait_event_info."""
    aio: bool = False
    """Its version may leave reads to others."""
    block_size: int = BLOCK_SIZE
    uid: int = 0
    """The user as whom it runs."""
    start_time_ticks: int = 0
    """As a Member has it."""
    query_ids: bool = False
    """It computes them, and shows what its backends run."""


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """How to trace, as its user asks."""

    probe_type: ProbeType | None = None
    """A probe type that is forced; None takes the best that loads."""
    engine: EngineName | None = None
    """One that is forced; None takes libbpf, and bcc where there is no BTF."""
    operations: tuple[Operation, ...] = ("read",)
    """What is measured."""
    times: bool = False
    """Where the time of queries and backends goes: on a CPU, waiting for one, asleep."""
    literals: bool = False
    """Texts that differ in them are different statements, where there are no query ids."""
    per_query: bool = False
    """Hand over each query by poll(), instead of adding them up by statement in the kernel."""
    most_statements: int = 5000
    """Kept apart, of all backends together; more are added up for each backend."""
    emit_durations: bool = False
    """Hand over how long each read took, one by one."""
    live: bool = False
    """A screen shows what is done as it is done: its start waits for nothing that comes later."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to trace, decided before anything is loaded."""

    options: EngineOptions = EngineOptions()

    members: tuple[Member, ...] = ()
    """Traced from the start."""
    postmasters: tuple[Postmaster, ...] = ()
    """Their children are traced, those to come too."""
    binaries: tuple[Probed, ...] = ()
    """Where to put the probes of queries."""
    checkpoints: tuple[Probed, ...] = ()
    """As binaries: where to see when the phases of checkpoints begin."""
    only: int = 0
    """The thread of the first member, if it matters most: it is found first."""
    listed: bool = False
    """Some members are no children of the postmasters."""
    askers: tuple[Probed, ...] = ()
    """As binaries: where reads are asked for, if there are I/O workers."""
    waiters: tuple[Probed, ...] = ()
    """Of the binaries, those where asynchronous reads are waited for."""
    ignored: tuple[Member, ...] = ()
    """Children of the postmasters that run already and are of no interest."""
    helpers_only: bool = False
    """Of the children to come, only parallel workers and I/O workers."""
    aio: bool = False
    """A server may leave reads to others, and they are charged to who asked."""
    io_uring: bool = False
    """The server may leave reads to io_uring."""
    block_size: int = BLOCK_SIZE
    segment_bytes: int = 1 << 30
    """Of a relation's files, all but the last are this long."""
    most_tasks: int = 64
    by_file: bool = False
    """Each file has an entry of its own in Engine.files()."""
    query_ids: frozenset[Identity] = frozenset()
    """The programs of servers that compute them: others are not to wait for what never comes."""
    light: bool = False
    """Queries are looked up in their backends' memory: `binaries` is empty then."""
    programs: frozenset[Identity] = frozenset()
    """What the servers run."""
    calibrate: tuple[Probed, ...] = ()
    """As binaries: where to find out what lies where in that memory."""
    unfollowed: frozenset[int] = frozenset()
    """Postmasters whose children's queries are not measured."""
    not_measured: tuple[str, ...] = ()
    """What is known beforehand, each with its reason."""
