"""What a user means to trace, and the request for an engine that follows from it."""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..engines import BLOCK_SIZE, Member, Postmaster, Probed, Request, Tier
from ..errors import PgtraceError, TargetError
from ..linux.program_file import Program
from ..postgres import binary, discovery
from ..postgres.binary import Programs
from ..postgres.discovery import Backend, Server
from ..postgres.versions import too_old
from .options import TraceOptions

FIRST_AIO = 18
"""The first version with asynchronous reads."""
MOST_SERVERS = 16
"""There is room for in the kernel half: layout.SERVERS."""
_OFF, _ON = 0, 1  # ComputeQueryIdType, src/include/nodes/queryjumble.h
_WORKER, _URING = 1, 2  # IoMethod, src/include/storage/aio.h
_STATEMENT = ("MyBEEntry", "debug_query_string")
_WAIT = "my_wait_event_info"
_NO_EVENTS = f"wait events: a server's binary does not export {_WAIT}"
_LEFT = "reads of its parallel and I/O workers: left where they ran (--no-charge)"


@dataclass(frozen=True, slots=True)
class Filters:
    """Which backends count; an empty set lets all pass."""

    datnames: frozenset[str] = frozenset()
    usenames: frozenset[str] = frozenset()
    backend_types: frozenset[str] = frozenset()

    @property
    def is_empty(self) -> bool:
        """Whether all pass."""
        return not (self.datnames or self.usenames or self.backend_types)

    def allow(self, datname: str | None, usename: str | None, backend_type: str | None) -> bool:
        """Whether such a backend is meant."""
        return all(
            not wanted or value in wanted
            for wanted, value in (
                (self.datnames, datname),
                (self.usenames, usename),
                (self.backend_types, backend_type),
            )
        )


@dataclass(frozen=True, slots=True)
class Target:
    """Backends, or whole servers, or (neither) a process that need not be PostgreSQL."""

    pids: tuple[int, ...] = ()
    backends: tuple[Backend, ...] = ()
    servers: tuple[Server, ...] = ()
    whole: bool = False
    """The servers with all their processes, also those to come."""
    filters: Filters = field(default_factory=Filters)

    @property
    def is_all_of_servers(self) -> bool:
        """Whether nothing of the servers is left out."""
        return self.whole and self.filters.is_empty

    @property
    def is_of_databases(self) -> bool:
        """Whether it is all that runs in some databases, or in all: the server counts by these."""
        return self.whole and not (self.filters.usenames or self.filters.backend_types)

    def __str__(self) -> str:
        if self.whole:
            names = discovery.told_apart(self.servers)
            return ", ".join(f"the server in {name}" for name in names.values())
        return ("process " if len(self.pids) == 1 else "processes ") + ", ".join(
            str(pid) for pid in self.pids
        )

    @classmethod
    def find(cls, pid: int) -> "Target":
        """A PostgreSQL process; a postmaster means its whole server.

        Raises TargetError or PermissionDeniedError if it is none.
        """
        return cls.of_pids((pid,))

    @classmethod
    def of_pids(cls, pids: Sequence[int], filters: Filters | None = None) -> "Target":
        """Processes of PostgreSQL; if one is a postmaster, whole servers. Errors as find()."""
        backends = tuple(discovery.backend(pid) for pid in dict.fromkeys(pids))
        servers = _servers_of(backends)
        masters = {b.pid for b in backends if b.backend_type == "postmaster"}
        if masters and masters != {b.pid for b in backends}:
            raise TargetError(
                "a postmaster stands for its whole server: give it alone, or backends alone"
            )
        if masters:
            return cls.of_servers(servers, filters)
        return cls(tuple(b.pid for b in backends), backends, servers, False, filters or Filters())

    @classmethod
    def of_servers(cls, servers: Sequence[Server], filters: Filters | None = None) -> "Target":
        """Whole servers."""
        return cls((), (), tuple(servers), True, filters or Filters())

    def running(self) -> "Target":
        """The same without servers that have stopped since it was found."""
        if not self.whole:
            return self
        return replace(self, servers=tuple(server for server in self.servers if server.runs()))

    def tier(self) -> Tier:
        """How much of queries is measured if nobody asks: of whole servers what costs no probe,
        if any that can be followed shows what its backends run. One that does not is no reason for
        probes in the queries of all others: of it, request() says that it is not measured.
        """
        if not self.whole:
            return "full"
        why = all_unfollowed(self.servers)
        followed = [s for s in self.servers if s.postmaster_pid not in why]
        hidden = why_not_light(followed)
        return "full" if hidden and len(hidden) == len(followed) else "light"

    def times(self) -> bool:
        """Whether it is measured where the rest of time goes if nobody asks: unless each switch of
        a whole server would be counted, which costs it more than 3 % (docs/benchmarks.md).
        """
        return not self.whole

    def family(self) -> list[Backend]:
        """All processes of its servers, as they are now, without what they do."""
        return [b for server in self.servers for b in server.backends(activity=False)]

    def request(
        self, options: TraceOptions, programs: Programs, family: Sequence[Backend] | None = None
    ) -> Request:
        """What the engine has to do. ValueError if the light tier is to tell each query.

        `programs` keep the files open that get probes: until then, what they run may be another.
        `family` is family(), where it was looked at already.
        """
        light = options.queries == "light"
        if light and options.per_query:
            raise ValueError("in the light tier nothing tells when a query ends")
        if not self.backends and not self.whole:
            threads = tuple(
                Member(int(entry.name), self.pids[0])
                for entry in Path(f"/proc/{self.pids[0]}/task").iterdir()
            )
            return Request(
                options, threads, listed=True, most_tasks=len(threads), by_file=options.by_file
            )
        charge = options.charge
        family = self.family() if family is None else family
        children = [b for b in family if b.backend_type != "postmaster"]
        opened = _opened(self.servers, programs)
        why = all_unfollowed(self.servers, opened)
        followed = [s for s in self.servers if s.postmaster_pid not in why]
        reading = charge and "read" in options.operations
        newer = {s.postmaster_pid: s for s in followed if has_aio(s)}
        asynchronous = reading and bool(newer)
        uring = "read" in options.operations and any(map(has_aio, self.servers))
        helping = [b for b in children if charge and b.postmaster_pid not in why]
        io_workers = [b for b in helping if asynchronous and b.backend_type == "io worker"]
        if self.whole:
            members = sorted(children, key=lambda b: b.backend_type == "io worker")
            binaries = _binaries(followed, opened)
            waiters = _binaries(newer.values(), opened)
        else:
            helpers = [b for b in helping if b.leader_pid in self.pids]
            members = [*self.backends, *helpers, *io_workers]
            own = [b for b in self.backends if b.postmaster_pid not in why]
            binaries = tuple((programs.of(b.process.binary), b.pid) for b in own)
            waiters = tuple(
                each for each, b in zip(binaries, own, strict=True) if b.postmaster_pid in newer
            )
        meant = {b.pid for b in members}
        hidden = why_not_light(followed) if light else {}
        asked = followed if options.queries != "none" else []
        computing = [s for s in asked if computes_query_ids(s)]
        full = options.queries == "full" and computing
        shown = [s for s in followed if full or (light and s.postmaster_pid not in hidden)]
        masters = tuple(postmaster(s, memory=s in shown) for s in self.servers)
        return Request(
            options,
            tuple(_member(backend) for backend in members),
            masters,
            binaries if options.queries == "full" else (),
            checkpoints=_binaries(followed, opened) if options.checkpoints else (),
            only=0 if self.whole or len(self.pids) > 1 else self.pids[0],
            listed=any(b.postmaster_pid is None for b in self.backends),
            # Parallel workers to come ask too: no probe can wait in them alone
            askers=_binaries(newer.values(), opened),
            waiters=waiters if options.queries == "full" else (),
            ignored=tuple(_member(b) for b in children if b.pid not in meant),
            helpers_only=not self.whole,
            aio=asynchronous,
            io_uring=uring,
            block_size=next((s.block_size for s in self.servers if s.block_size), BLOCK_SIZE),
            most_tasks=(
                max(options.most_backends, len(members)) if self.whole else len(members) + 64
            ),
            by_file=options.by_file,
            light=light,
            calibrate=binaries if light and any(master.entry for master in masters) else (),
            programs=frozenset(program.identity for program in opened.values()),
            query_ids=frozenset(program.identity for program, _ in _binaries(computing, opened)),
            unfollowed=frozenset(why),
            not_measured=(
                *(
                    f"{what}: {reason}"
                    for reason in dict.fromkeys(why.values())
                    for what in (
                        "queries",
                        *(["charging reads of helpers to them"] if charge else []),
                    )
                ),
                *([] if charge or self.whole else [_LEFT]),
                *(f"queries: {reason}" for reason in dict.fromkeys(hidden.values())),
                *([_NO_EVENTS] if options.times and not all(each.wait for each in masters) else []),
            ),
        )


def unfollowed(server: Server, program: Program | None = None) -> str | None:
    """Why of a server nothing but reads can be measured; None if that is not so. `program` is what
    it runs, if that is held open.
    """
    if reason := too_old(server.version):
        return reason
    file = program or server.postmaster.binary
    if binary.is_foreign(file):
        return "the server's program is of another architecture than the kernel"
    if problem := binary.unreadable(file):
        return f"the server's program cannot be read: {problem}"
    return None


def all_unfollowed(
    servers: Sequence[Server], opened: Mapping[int, Program] | None = None
) -> dict[int, str]:
    """The same of all servers that are traced together, by their postmasters' pids."""
    opened = opened or {}
    why = {
        each.postmaster_pid: reason
        for each in servers
        if (reason := unfollowed(each, opened.get(each.postmaster_pid)))
    }
    others = [each for each in servers if each.postmaster_pid not in why]
    return why | _unlike_others(others, opened)


def _unlike_others(servers: Sequence[Server], opened: Mapping[int, Program]) -> dict[int, str]:
    """Of several servers, those without a way to see queries: they are not to cost the others'."""
    if len(servers) < 2:
        return {}
    from ..engines.probes import FUNCTIONS_OF_QUERIES, USDT_OF_QUERIES

    lacking = {}
    for server in servers:
        file = opened.get(server.postmaster_pid) or server.postmaster.binary
        try:
            functions = (name.split()[0] for name in FUNCTIONS_OF_QUERIES)
            absent = [name for name in functions if not binary.has_symbol(file, name)]
            if absent and USDT_OF_QUERIES - binary.probes(file):
                what = ", ".join(dict.fromkeys(absent))
                lacking[server.postmaster_pid] = (
                    f"a server's binary has no USDT probes and does not export {what}"
                )
        except PgtraceError as error:
            lacking[server.postmaster_pid] = str(error)
    return lacking if len(lacking) < len(servers) else {}


def why_not_light(servers: Sequence[Server]) -> dict[int, str]:
    """Why of some servers nothing is known of queries in the light tier, by their postmasters'
    pids.
    """
    why = {}
    for server in servers:
        for name in _STATEMENT:
            if not binary.known_address(server.postmaster_pid, name):
                why[server.postmaster_pid] = f"a server's binary does not export {name}"
    return why


def computes_query_ids(server: Server) -> bool:
    """As IsQueryIdEnabled() in src/include/nodes/queryjumble.h; True where that is not known."""
    try:
        setting, module = (
            binary.read_variable(server.postmaster_pid, name, size)
            for name, size in (("compute_query_id", 4), ("query_id_enabled", 1))
        )
    except PgtraceError:
        return True
    return setting == _ON or (setting != _OFF and bool(module))


def postmaster(server: Server, *, memory: bool = False) -> Postmaster:
    """What the kernel has to know of it; with `memory`, also where its backends show statements."""
    pid, method = server.postmaster_pid, _io_method(server)
    entry, text = (binary.known_address(pid, each) if memory else 0 for each in _STATEMENT)
    name, wait = (binary.known_address(pid, each) for each in ("application_name", _WAIT))
    workers, uring = method == _WORKER, method == _URING
    size, uid = server.block_size or BLOCK_SIZE, server.postmaster.uid
    since, aio = server.postmaster.start_time_ticks, has_aio(server)
    ids = memory and computes_query_ids(server)
    return Postmaster(pid, name, workers, uring, entry, text, wait, aio, size, uid, since, ids)


def has_aio(server: Server) -> bool:
    """Whether its version may leave reads to others."""
    return (server.major or 0) >= FIRST_AIO


def _io_method(server: Server) -> int | None:
    if not has_aio(server):
        return None
    try:
        return binary.read_variable(server.postmaster_pid, "io_method", 4)
    except PgtraceError:
        workers = any(backend.backend_type == "io worker" for backend in server.backends())
        return _WORKER if workers else None


def _member(backend: Backend) -> Member:
    process = backend.process
    return Member(
        process.pid,
        process.pid,
        process.inner_pid,
        backend.postmaster_pid or 0,
        process.start_time_ticks,
    )


def _servers_of(backends: Sequence[Backend]) -> tuple[Server, ...]:
    masters = {b.postmaster_pid: b.pid for b in backends if b.postmaster_pid}
    return tuple(discovery.server(pid) for pid in masters.values())


def _opened(servers: Iterable[Server], programs: Programs) -> dict[int, Program]:
    """What those run that have not ended, by their postmasters' pids."""
    opened = {}
    for server in servers:
        with contextlib.suppress(PgtraceError):
            opened[server.postmaster_pid] = programs.of(server.postmaster.binary)
    return opened


def _binaries(servers: Iterable[Server], opened: Mapping[int, Program]) -> tuple[Probed, ...]:
    """Each binary once: probes in it count for every process that runs it."""
    found = (opened.get(server.postmaster_pid) for server in servers)
    return tuple((program, -1) for program in dict.fromkeys(found) if program)
