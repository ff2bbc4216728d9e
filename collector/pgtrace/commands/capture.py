"""pgtrace capture: one shot."""

import argparse
import contextlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from .. import stderr
from ..errors import PgtraceError, reason
from ..terminal_text import escape
from . import find_target, notes, session, tracing_options

if TYPE_CHECKING:
    from ..files.so_far import SoFar
    from ..model.capture import Capture, Operation
    from ..tracing.run_loop import Stopper
    from ..tracing.tracer import Tracer


class CaptureCommand:
    """Trace backends or a whole server for a while; write the capture, or print its report.

    Without a target it traces the only server on this host. It ends after --duration, with the
    last of the backends, or at Ctrl-C.
    """

    examples = (
        "sudo pgtrace capture --duration 60",
        "sudo pgtrace capture --server 5432 -o busy.json",
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the options."""
        tracing_options.add_arguments(parser, several=True)
        output = tracing_options.output_group(parser)
        output.add_argument(
            "-o",
            "--output",
            type=Path,
            metavar="FILE",
            help="write the capture to FILE, and print no report",
        )
        output.add_argument("--force", action="store_true", help="overwrite FILE")
        output.add_argument(
            "--json", action="store_true", help="print the capture as JSON, and no report"
        )
        output.add_argument(
            "--literals",
            action="store_true",
            help="keep the literals of queries, which are people's data",
        )

    def run(self, args: argparse.Namespace) -> int:
        """Trace, then write or print."""
        from ..files import output_file
        from ..tracing import run_loop

        if args.output:
            output_file.check(args.output, force=args.force)
        progress, room, names = _Progress(args), _Room(args), _NamesLost()
        so_far = _so_far(args, progress.clear)
        with session.attached(args, find_target.find_any, literals=args.literals, keeps=True) as (
            tracer,
            watched,
            stopper,
        ):
            notes.note(args, f"Tracing {tracer.target}. Ctrl-C to stop.")

            watch = notes.watch(args, tracer, before=progress.clear)

            def tick() -> None:
                tracer.poll()
                notes.say_failures(args, tracer.failures)
                room.look()
                names.look(tracer)
                if so_far:
                    so_far.look(tracer.polled, tracer.counted_ns())
                watch()
                progress.look(tracer.counts)

            run_loop.run(stopper, watched, args.duration, tick, tracer.failures, rest=tracer.rest)
            progress.clear()
            taken = tracer.stop()
            notes.say_failures(args, tracer.failures)
            _deliver(taken, args, stopper, so_far)
        session.check_complete(args, taken)
        return 0


def _so_far(args: argparse.Namespace, before: Callable[[], None]) -> "SoFar | None":
    """For a file alone: nothing of a stream can be taken back."""
    from ..files import rescue

    if not args.output or not rescue.may_be_file(args.output):
        return None
    from ..files.so_far import SoFar

    def say(words: str) -> None:
        before()
        stderr.say(f"pgtrace: {escape(words)}")

    return SoFar(args.output, force=args.force, say=say)


def _deliver(
    taken: "Capture", args: argparse.Namespace, stopper: "Stopper", so_far: "SoFar | None"
) -> None:
    """Write it, and print what was asked for; if that fails, keep it elsewhere and say so."""
    from ..files import output_file
    from ..model import encoding

    try:
        data = encoding.encode(taken)
    except Exception as error:
        with contextlib.suppress(OSError):  # what is wrong is said in any case
            print(_report(taken), end="", flush=True)
        raise PgtraceError(f"no file can be made of the capture: {error}; see above") from error
    if args.output:
        try:
            wrote = output_file.write(data, args.output, force=args.force)
        except (OSError, PgtraceError) as error:
            raise PgtraceError(f"{error}. {_keep(data, args, taken)}") from error
        notes.note(args, wrote)
        if so_far:
            so_far.remove()
    _print(taken, data, args, stopper)


def _print(taken: "Capture", data: bytes, args: argparse.Namespace, stopper: "Stopper") -> None:
    from ..errors import LeftError

    try:
        with stopper.may_leave():
            if args.json:
                print(data.decode(), end="")
            elif not args.output:
                print(_report(taken), end="")
            if sys.stdout:  # closed by who started us, which a file has no need of
                sys.stdout.flush()
    except LeftError as error:
        if args.output:
            return
        raise LeftError(f"{error}. {_keep(data, args)}") from error
    except Exception as error:
        if isinstance(error, BrokenPipeError) and (args.output or not args.json):
            return  # it is written, or somebody has seen enough of a report
        if args.output:
            raise
        raise PgtraceError(
            f"the report could not be printed: {error}. {_keep(data, args)}"
        ) from error


def _report(taken: "Capture") -> str:
    """As wide as the terminal; of several backends one screen."""
    from ..reporters.terminal import capture_report, server_report
    from .report import width

    columns = width(to_file=False)
    if len(taken.backends) < 2:
        return capture_report.render(taken, width=columns)
    return server_report.render(taken, width=columns)


def _keep(data: bytes, args: argparse.Namespace, shown: "Capture | None" = None) -> str:
    """Keep a capture wherever there is room for it, and say where; `shown` in the worst case."""
    from ..files import rescue

    kept = rescue.keep(data, args.output)
    if kept:
        return f"The capture was kept: {kept}"
    if shown is None or sys.stdout is None:
        return "No file system has room for the capture"
    try:
        if sys.stdout.isatty():
            print(_report(shown), end="", flush=True)
            return "No file system has room for the capture: its report is above"
        print(data.decode(), end="", flush=True)
    except OSError as error:
        return f"No other file system has room either, nor can stdout be written: {reason(error)}"
    return "No other file system has room either: the capture went to stdout"


class _Room:
    """Says in time that there is little room for the capture, once."""

    _EVERY_S = 5.0

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._next = 0.0 if args.output else float("inf")

    def look(self) -> None:
        from ..files import rescue

        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + self._EVERY_S
        words = rescue.little_room(self._args.output)
        if words:
            stderr.say(f"pgtrace: {escape(words)}")
            self._next = float("inf")


class _NamesLost:
    """Says it once when there is no room for more statements, about a second after."""

    def __init__(self) -> None:
        self._said = False
        self._last = time.monotonic()

    def look(self, tracer: "Tracer") -> None:
        now = time.monotonic()
        if self._said or now - self._last < 1:
            return
        self._last = now
        if tracer.unnamed_calls():
            self._said = True
            stderr.say(
                "pgtrace: there is no room for more statements: calls of others are counted, but "
                "without their text. Raise --max-statements."
            )


_REST = 20
"""So many times as long as counting for the terminal takes, it is not done again."""


class _Progress:
    """One line on a terminal, about once a second."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._wanted = stderr.is_terminal() and not args.quiet
        self._start = time.monotonic()
        self._next = self._start + 1

    def look(self, counts: "Callable[[], dict[Operation, int]]") -> None:
        """Count, and show it, if that is due: of hundreds of backends it may take a second."""
        from ..reporters.terminal.block import NAMES

        now = time.monotonic()
        if not self._wanted or now < self._next:
            return
        so_far = ", ".join(f"{count:,} {NAMES[each]}" for each, count in counts().items())
        stderr.say(f"\r{now - self._start:.0f} s, {so_far} ", end="")
        self._next = now + max(1, _REST * (time.monotonic() - now))

    def clear(self) -> None:
        if self._wanted:
            stderr.say("\r\033[K", end="")


COMMAND = CaptureCommand()
