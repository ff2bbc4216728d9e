"""What attach and capture have in common: the target, how to trace it, and a careful start."""

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import (
    DatabaseError,
    IncompleteError,
    PermissionDeniedError,
    PgtraceError,
    TargetError,
    UsageError,
)
from ..terminal_text import escape

if TYPE_CHECKING:
    from ..engines import Tier
    from ..failures import Failures
    from ..model.capture import Capture, Operation
    from ..postgres.discovery import Server
    from ..tracing.run_loop import Stopper, Watched
    from ..tracing.targets import Filters, Target
    from ..tracing.tracer import Tracer


_STATEMENTS = 5000
_IN_USE_EVERY_S = 10


def add_arguments(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    """Options of every command that traces: one backend, or `several` of them and servers."""
    target = parser.add_argument_group("what to trace")
    what, again = "the backend's process ID", "the same, as an option"
    if several:
        what = "a backend's process ID, or a postmaster's for its whole server"
        again += "; may be given several times"
    target.add_argument("target", nargs="?", type=_pid, metavar="PID", help=what)
    target.add_argument("-p", "--pid", type=_pid, metavar="PID", action="append", help=again)
    if several:
        _add_servers(target)
    _add_measures(parser.add_argument_group("what to measure"), several=several)
    how = parser.add_argument_group("how to trace")
    how.add_argument(
        "--probe",
        choices=("fentry", "kprobe", "tracepoint"),
        help="the probe type for reads, writes and fsyncs; by default the best that the kernel "
        "allows",
    )
    how.add_argument(
        "--engine",
        choices=("libbpf", "bcc"),
        help="bcc is for kernels without BTF, and needs the kernel's headers; by default libbpf "
        "where it works",
    )
    if several:
        _add_capacity(how)


def _add_measures(group: argparse._ArgumentGroup, *, several: bool) -> None:
    group.add_argument(
        "--operations",
        type=_operations,
        default=("read",),
        metavar="LIST",
        help="a comma-separated list of read, write and fsync, which includes fdatasync and "
        "sync_file_range; by default read",
    )
    by_default = "light for a whole server, full otherwise" if several else "full"
    group.add_argument(
        "--queries",
        choices=("light", "full", "none"),
        help="full: calls, latencies and reads of each statement, by probes in the server; light: "
        f"its reads alone, without any; by default {by_default}",
    )
    by = "kind" if several else "relation"
    group.add_argument(
        "--by",
        choices=("kind", "relation"),
        default=by,
        help=f"count reads by kind of file, or by relation; by default {by}",
    )
    group.add_argument(
        "--no-charge",
        dest="charge",
        action="store_false",
        help="do not charge the reads of parallel workers and I/O workers to the backend that "
        "they work for",
    )
    group.add_argument(
        "--dsn",
        metavar="DSN",
        help="connect this way for names of relations and users, and not as the server's owner by "
        "its Unix-domain socket: a connection string of libpq's, or '' for what the PG* "
        "environment variables say",
    )
    group.add_argument(
        "--no-connect",
        dest="connect",
        action="store_false",
        help="do not connect to the server: names are then what the titles of processes tell",
    )
    group.add_argument(
        "--require-names",
        action="store_true",
        help="exit with 7 if the connection fails, or a database may not be seen",
    )


def _add_servers(group: argparse._ArgumentGroup) -> None:
    """Options of commands that can trace several processes."""
    group.add_argument(
        "--server",
        metavar="DIR|PORT",
        help="the whole server with this data directory or port, processes that start later "
        "included",
    )
    group.add_argument("--all", action="store_true", help="all servers on this host")
    for name, words in (
        ("datname", "of this database"),
        ("usename", "of this user"),
        ("backend-type", "of this type, such as walwriter"),
    ):
        group.add_argument(
            f"--{name}",
            metavar="NAME",
            action="append",
            help=f"only backends {words}; may be given several times",
        )
    group.add_argument(
        "--wait", action="store_true", help="wait for a backend that passes these filters"
    )
    group.add_argument(
        "--own-queries",
        action="store_true",
        help="trace the backends of pgtrace's own connections, too",
    )


def _add_capacity(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--max-backends",
        type=_count,
        default=1024,
        metavar="N",
        help="how many processes of servers can be traced at once, beside those that run already "
        "(1024)",
    )
    group.add_argument(
        "--max-statements",
        type=_count,
        default=_STATEMENTS,
        metavar="N",
        help="how many statements are kept apart, of all backends together (5000); the others "
        "are added up for each backend",
    )


def output_group(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """For when to stop and what to write: these two, and what the command adds."""
    group = parser.add_argument_group("when to stop, and what to write")
    group.add_argument("--duration", type=seconds, metavar="S", help="stop after S seconds")
    group.add_argument(
        "--strict",
        action="store_true",
        help="exit with 6 if anything was lost, or could not be measured",
    )
    return group


def note(args: argparse.Namespace, message: str) -> None:
    """Say something that is not data."""
    if not args.quiet:
        print(message, file=sys.stderr)


@contextlib.contextmanager
def attached(
    args: argparse.Namespace,
    find: Callable[[argparse.Namespace], "Target"],
    *,
    literals: bool,
    per_query: bool = False,
    keeps: bool = False,
) -> Iterator[tuple["Tracer", "Watched", "Stopper"]]:
    """Trace what the arguments name; detached at any end. `keeps` as Stopper has it."""
    from ..engines.select import check_pid_namespace
    from ..libbpf import objects
    from ..postgres.versions import too_new
    from ..tracing.options import TraceOptions
    from ..tracing.run_loop import Stopper, Watched
    from ..tracing.tracer import Tracer

    if not args.connect and (args.dsn is not None or args.require_names):
        other = "--require-names" if args.dsn is None else "--dsn"
        raise UsageError(f"{other} needs a connection: leave it or --no-connect out")
    if args.verbose:
        from ..engines.bcc import kernel_types
        from ..linux import tracepoints

        objects.print_messages()
        kernel_types.verbose = tracepoints.verbose = True
    check_pid_namespace()  # there no pid means what its user thinks
    stopper = Stopper(keeps=keeps)
    try:
        target = find(args)
        with (
            contextlib.ExitStack() as hurry,
            contextlib.closing(Watched(() if target.whole else target.pids)) as watched,
        ):
            queries: Tier = args.queries or target.tier()
            options = TraceOptions(
                probe_type=args.probe,
                engine=args.engine,
                literals=literals,
                per_query=per_query and queries == "full",
                queries=queries,
                charge=args.charge,
                dsn=args.dsn,
                as_owner=args.connect,
                by_relation=args.by == "relation",
                operations=args.operations,
                most_backends=getattr(args, "max_backends", 1),
                own_queries=getattr(args, "own_queries", False),
                most_statements=getattr(args, "max_statements", _STATEMENTS),
            )
            tracer = Tracer(
                target,
                options,
                once_attached=lambda: _let_go(args, hurry, whole=target.whole),
            )
            stopper.hurry = tracer.hurry
            try:
                stopper.start()
                for warning in dict.fromkeys(too_new(s.version) for s in target.servers):
                    if warning:
                        note(args, warning)
                if tracer.engine.note:
                    note(args, tracer.engine.note)
                if args.require_names:
                    tracer.require_names()
                yield tracer, watched, stopper
            finally:
                hurry.close()
                tracer.stop()
    finally:
        stopper.restore()


def _let_go(args: argparse.Namespace, hurry: contextlib.ExitStack, *, whole: bool) -> None:
    """Of privileges that nothing needs from here on, once what needs them is done: to run soon.

    A server that is started again may run another binary, to which probes are attached anew, and a
    file of another user's is made by a child that becomes that user: these keep a reserve.
    """
    from ..linux import capabilities, whose_path
    from ..linux.priority import soon

    hurry.enter_context(soon())
    output, reserve = getattr(args, "output", None), []
    if whole:
        reserve += [*capabilities.to_attach_again(), *capabilities.BECOMING]
    elif output is not None:
        with (
            contextlib.suppress(OSError, UsageError),
            whose_path.entered(output.parent) as (_, uid),
        ):
            reserve += capabilities.BECOMING if uid is not None else []
    capabilities.drop(reserve)


def say_failures(
    args: argparse.Namespace, failures: "Failures", before: Callable[[], None] = lambda: None
) -> None:
    """Say at once what went wrong of our own since the last call; with -v, the traceback. `before`
    is called before something is said.
    """
    for reason, traceback in failures.news():
        before()
        words = f"{reason}\n{traceback.rstrip()}" if args.verbose else reason
        print(f"pgtrace: unexpected error: {escape(words, lines=True)}", file=sys.stderr)


def watch(
    args: argparse.Namespace, tracer: "Tracer", before: Callable[[], None] = lambda: None
) -> Callable[[], None]:
    """What to call at each tick: it says at once what is lost, that there will be no names and,
    with -v, now and then how much of the room in the kernel is in use. `before` is called before
    something is said.
    """
    from ..reporters.losses import Watch

    def say(message: str) -> None:
        before()
        print(message, file=sys.stderr)

    losses = Watch(tracer.lost, tracer.kept, say)
    due, named = 0.0, True

    def tick() -> None:
        nonlocal due, named
        losses.tick()
        if named and tracer.names and tracer.names.server is None and tracer.names.failure:
            named = False
            say(f"pgtrace: no names: {escape(tracer.names.failure)}")
        if args.verbose and time.monotonic() >= due and (used := tracer.in_use()):
            due = time.monotonic() + _IN_USE_EVERY_S
            counts = ", ".join(f"{number} {name}" for name, number in used._asdict().items())
            say(f"In use in the kernel: {counts}.")

    return tick


def find_one(args: argparse.Namespace) -> "Target":
    """The one backend that is meant."""
    pids = _pids(args)
    if len(pids) != 1:
        what = "different pids were given." if pids else "which process?"
        raise UsageError(f"{what} Give one pid; `pgtrace list` shows them")
    target = _of_pids(args, pids)
    if target.whole:
        raise TargetError(
            f"process {pids[0]} is a postmaster, which runs no queries; "
            "give the pid of one of its backends: `pgtrace list` shows them. "
            f"`pgtrace capture {pids[0]}` traces the whole server"
        )
    return target


def find_any(args: argparse.Namespace) -> "Target":
    """Backends, or servers; nothing at all means the only server on this host."""
    from ..postgres import discovery
    from ..tracing.targets import MOST_SERVERS, Filters, Target

    pids = _pids(args)
    if sum(map(bool, (pids, args.server, args.all))) > 1:
        raise UsageError("give pids, or --server, or --all: only one of them")
    filters = Filters(
        frozenset(args.datname or ()),
        frozenset(args.usename or ()),
        frozenset(args.backend_type or ()),
    )
    if pids:
        target = _of_pids(args, pids, filters)
    else:
        servers = discovery.servers()
        if args.server:
            servers = [server for server in servers if _is_named(server, args.server)]
        hidden = None if servers and args.server else discovery.hidden()
        if not servers:
            which = f"no server {args.server}" if args.server else "no PostgreSQL server"
            if hidden:
                raise PermissionDeniedError(f"{which} that you may look into: {hidden}")
            raise TargetError(f"{which} is running here; `pgtrace list` shows what is")
        if hidden:
            note(args, f"Not traced: {hidden}")
        if len(servers) > 1 and not args.all:
            known = ", ".join(f"--server {server.data_directory}" for server in servers)
            raise UsageError(f"several servers are running: {known}; or --all")
        if len(servers) > MOST_SERVERS:
            # Whoever starts more, later, does not take the place of those that were there
            servers.sort(key=lambda server: server.postmaster.start_time_ticks)
            left = ", ".join(str(server.postmaster_pid) for server in servers[MOST_SERVERS:])
            note(args, f"Not traced: more than {MOST_SERVERS} servers: postmasters {left}")
        target = Target.of_servers(servers[:MOST_SERVERS], filters)
    _check_filters(args, target)
    return target


def _of_pids(
    args: argparse.Namespace, pids: list[int], filters: "Filters | None" = None
) -> "Target":
    """Of a parallel worker its leader, with a word."""
    from ..postgres import discovery
    from ..tracing.targets import Target

    meant = []
    for pid in pids:
        leader = discovery.backend(pid).leader_pid if args.charge else None
        if leader:
            note(args, f"Process {pid} is a parallel worker of {leader}: tracing its leader.")
        meant.append(leader or pid)
    return Target.of_pids(meant, filters)


def _check_filters(args: argparse.Namespace, target: "Target") -> None:
    """Raise TargetError if no process of now passes; say so only, with --wait."""
    if target.filters.is_empty:
        return
    family = [b for server in target.servers for b in server.backends()]
    if any(
        target.filters.allow(b.datname, b.usename, b.backend_type)
        for b in (family if target.whole else target.backends)
    ):
        return
    message = "no backend passes --datname, --usename, --backend-type now"
    if not args.wait:
        raise TargetError(f"{message}; `pgtrace list` shows them, --wait waits for one")
    note(args, f"{message[0].upper()}{message[1:]}: waiting for one.")


def _is_named(server: "Server", name: str) -> bool:
    if name.isascii() and name.isdecimal():
        return server.port == int(name)
    asked = Path(name)
    if server.data_directory == str(asked.absolute()):
        return True
    try:
        return asked.samefile(server.directory)
    except OSError:
        return False


def _pids(args: argparse.Namespace) -> list[int]:
    return list(dict.fromkeys([*([args.target] if args.target else []), *(args.pid or [])]))


def check_complete(args: argparse.Namespace, capture: "Capture") -> None:
    """Raise PgtraceError if it is partial; DatabaseError under --require-names if names are missing
    after all; IncompleteError under --strict if anything was lost or not measured.
    """
    if capture.partial:
        raise PgtraceError(
            "the capture is partial, and marked so, because of the unexpected error above"
            + ("" if args.verbose else " (run again with -v for the traceback)")
        )
    lost = capture.lost
    missing = list(capture.probes.not_measured)
    unnamed = [words for words in missing if words.startswith("names")]
    if args.require_names and unnamed:
        raise DatabaseError("; ".join(unnamed))
    if not args.strict:
        return
    if lost.read or lost.queries or lost.backends:
        missing.append(
            f"{lost.read} reads, {lost.queries} queries and {lost.backends} backends were lost"
        )
    if lost.write or lost.fsync:
        missing.append(f"{lost.write} writes and {lost.fsync} fsyncs were lost")
    if lost.statements:
        missing.append(f"{lost.statements} calls lost their statement (--max-statements)")
    if lost.unplaced:
        missing.append(f"the files of {lost.unplaced} reads, writes and fsyncs are not told")
    if lost.latencies:
        missing.append(f"the latencies of {lost.latencies} calls were lost")
    if missing:
        raise IncompleteError(f"incomplete: {'; '.join(missing)}")


def _pid(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 0 < int(text) < 1 << 22:
        raise argparse.ArgumentTypeError(f"{text!r} is not a pid")
    return int(text)


def _operations(text: str) -> "tuple[Operation, ...]":
    from ..engines import OPERATIONS

    asked = text.split(",")
    wrong = [each for each in asked if each not in OPERATIONS]
    if wrong:
        raise argparse.ArgumentTypeError(
            f"{wrong[0]!r} is none of {', '.join(OPERATIONS)}; separate several by commas"
        )
    return tuple(each for each in OPERATIONS if each in asked)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 0 < int(text) <= 1 << 16:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 65536")
    return int(text)


def seconds(text: str) -> float:
    """An option's value in seconds, above 0; for argparse."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if not 0 < seconds < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return seconds
