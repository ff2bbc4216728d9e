"""A careful start of what attach and capture trace, and a careful end."""

import argparse
import contextlib
import gc
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import DatabaseError, IncompleteError, PgtraceError, TargetError, UsageError
from .notes import note
from .tracing_options import MOST_STATEMENTS

if TYPE_CHECKING:
    from ..engines import Tier
    from ..model.capture import Capture
    from ..tracing.run_loop import Stopper, Watched
    from ..tracing.targets import Target
    from ..tracing.tracer import Tracer

_MAKE = stat.S_IWUSR | stat.S_IXUSR


@contextlib.contextmanager
def attached(
    args: argparse.Namespace,
    find: Callable[[argparse.Namespace], "Target"],
    *,
    literals: bool,
    per_query: bool = False,
    keeps: bool = False,
    live: bool = False,
) -> Iterator[tuple["Tracer", "Watched", "Stopper"]]:
    """Trace what the arguments name; detached at any end. `keeps` as Stopper has it,
    `live` as TraceOptions."""
    from ..engines.select import check_pid_namespace
    from ..libbpf import objects
    from ..postgres.versions import too_new
    from ..tracing.options import TraceOptions
    from ..tracing.run_loop import Stopper, Watched
    from ..tracing.tracer import Tracer

    if args.dsn is not None:
        _check_dsn(args.dsn)
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

        def options(target: "Target") -> TraceOptions:
            queries: Tier = args.queries or target.tier()
            return TraceOptions(
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
                times=target.times() if args.time is None else args.time,
                most_backends=getattr(args, "max_backends", 1),
                live=live,
                own_queries=getattr(args, "own_queries", False),
                most_statements=getattr(args, "max_statements", MOST_STATEMENTS),
            )

        with (
            contextlib.ExitStack() as hurry,
            contextlib.closing(Watched(() if target.whole else target.pids)) as watched,
        ):
            tracer = _started(
                args,
                target,
                lambda target: Tracer(
                    target,
                    options(target),
                    once_attached=lambda: _let_go(args, hurry, whole=target.whole, live=live),
                ),
            )
            stopper.hurry = tracer.hurry
            gc.freeze()  # what is there by now stays to the end: the collector need not look at it
            try:
                stopper.start()
                for warning in dict.fromkeys(too_new(s.version) for s in tracer.target.servers):
                    if warning:
                        note(args, warning)
                if tracer.engine.note:
                    note(args, tracer.engine.note)
                if args.require_names:
                    tracer.require_names()
                yield tracer, watched, stopper
            finally:
                hurry.close()
                tracer.close()
    finally:
        stopper.restore()


def _check_dsn(dsn: str) -> None:
    """Before anything is traced. Without psycopg there are no names, which is said elsewhere."""
    with contextlib.suppress(ImportError):
        from ..postgres.connection import check_dsn

        check_dsn(dsn)


def _started(
    args: argparse.Namespace, found: "Target", start: Callable[["Target"], "Tracer"]
) -> "Tracer":
    """Of several servers, one that stops before it is attached to does not cost the others'.
    TargetError if none is left.
    """
    while True:
        target = found.running()
        if found.whole and not target.servers:
            raise TargetError(f"{found} has stopped")
        for server in found.servers:
            if server not in target.servers:
                note(args, f"Not traced: the server in {server.data_directory}, which has stopped")
        try:
            return start(target)
        except PgtraceError:
            if target.running() == target:
                raise
            found = target


def _let_go(
    args: argparse.Namespace, hurry: contextlib.ExitStack, *, whole: bool, live: bool
) -> None:
    """Of privileges that nothing needs from here on, once what needs them is done: to run soon.

    A server that is started again may run another binary, to which probes are attached anew, and a
    file of another user's is made by a child that becomes that user: these keep a reserve, as does
    a file of root's own where only capabilities let root make one. A live screen may be asked for a
    file at any time, and ends a child that is nobody.
    """
    from ..linux import capabilities
    from ..linux.priority import soon

    hurry.enter_context(soon())
    output: Path | None = getattr(args, "output", None)
    directory = Path() if live else output and output.parent
    reserve: list[str] = []
    if whole:
        reserve += capabilities.to_attach_again()
    if whole or live:
        reserve += capabilities.BECOMING
    if directory:
        reserve += _to_write(directory)
    capabilities.drop(reserve)


def _to_write(directory: Path) -> Sequence[str]:
    """What it takes to make a file there: to become its owner, or to be root where only the
    directory's mode is against it."""
    from ..linux import capabilities, whose_path

    try:
        with whose_path.entered(directory) as (descriptor, uid):
            if uid is not None:
                return capabilities.BECOMING
            may_make = os.geteuid() != 0 or os.fstat(descriptor).st_mode & _MAKE == _MAKE
            return () if may_make else capabilities.WRITING
    except (OSError, UsageError):
        return ()


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
    if lost.times:
        missing.append(f"{lost.times} pieces of processes' time were lost")
    if lost.missed:
        missing.append(f"{lost.missed} times the kernel left out a probe")
    if missing:
        raise IncompleteError(f"incomplete: {'; '.join(missing)}")
