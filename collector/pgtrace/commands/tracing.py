"""What attach and capture have in common: the target, how to trace it, and a careful start."""

import argparse
import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..errors import IncompleteError, TargetError, UsageError

if TYPE_CHECKING:
    from ..capture import Capture
    from ..session import Stopper, Watched
    from ..tracer import Target, Tracer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of every command that traces."""
    parser.add_argument("target", nargs="?", type=_pid, metavar="PID", help="the backend's pid")
    parser.add_argument("-p", "--pid", type=_pid, metavar="PID", help="the same, as an option")
    parser.add_argument(
        "--duration", type=seconds, metavar="S", help="stop after that many seconds"
    )
    parser.add_argument(
        "--reads",
        choices=("fentry", "kprobe", "tracepoint"),
        help="the way in for reads; otherwise the best that the kernel allows",
    )
    parser.add_argument(
        "--strict", action="store_true", help="exit 6 if anything was lost or not measured"
    )


def note(args: argparse.Namespace, message: str) -> None:
    """Say something that is not data."""
    if not args.quiet:
        print(message, file=sys.stderr)


@contextlib.contextmanager
def attached(
    args: argparse.Namespace, *, literals: bool
) -> Iterator[tuple["Tracer", "Watched", "Stopper"]]:
    """Trace the process that the arguments name; detached at any end."""
    from ..session import Stopper, Watched
    from ..tracer import Tracer

    stopper = Stopper()
    try:
        target = find_target(args)
        watched = Watched(target.pid)
        with contextlib.closing(watched):
            tracer = Tracer(target, reads=args.reads, literals=literals)
            try:
                stopper.start()
                yield tracer, watched, stopper
            finally:
                tracer.stop()
    finally:
        stopper.restore()


def find_target(args: argparse.Namespace) -> "Target":
    """The backend that is meant: of a parallel worker its leader."""
    from ..tracer import Target

    pids = {pid for pid in (args.target, args.pid) if pid is not None}
    if len(pids) != 1:
        what = "two different pids were given" if pids else "which process?"
        raise UsageError(f"{what} Give one pid; `pgtrace list` shows them")
    pid = pids.pop()
    target = Target.find(pid)
    if target.backend and target.backend.backend_type == "postmaster":
        raise TargetError(
            f"process {pid} is a postmaster, which runs no queries; "
            "give the pid of one of its backends: `pgtrace list` shows them"
        )
    if target.backend and target.backend.leader_pid:
        leader = target.backend.leader_pid
        note(args, f"Process {pid} is a parallel worker of {leader}: tracing its leader.")
        target = Target.find(leader)
    return target


def check_complete(args: argparse.Namespace, capture: "Capture") -> None:
    """Raise IncompleteError under --strict if anything was lost or not measured."""
    if not args.strict:
        return
    lost = capture.lost
    missing = list(capture.probes.not_measured)
    if lost.reads or lost.queries:
        missing.append(f"{lost.reads} reads and {lost.queries} queries were lost")
    if missing:
        raise IncompleteError(f"incomplete: {'; '.join(missing)}")


def _pid(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 0 < int(text) < 1 << 22:
        raise argparse.ArgumentTypeError(f"{text!r} is not a pid")
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
