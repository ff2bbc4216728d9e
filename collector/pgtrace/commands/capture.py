"""pgtrace capture: one shot."""

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import PgtraceError
from ..statement import escape
from . import tracing

if TYPE_CHECKING:
    from ..capture import Capture, Operation
    from ..session import Stopper
    from ..tracer import Tracer


class CaptureCommand:
    """Trace backends or a whole server for a while; write the capture, or print its report.

    A postmaster's pid means its whole server, nothing at all the only server on this host.
    It ends after --duration, with the last of the backends, or at Ctrl-C.
    """

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the options."""
        tracing.add_arguments(parser, several=True)
        tracing.add_server_arguments(parser)
        parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write it there")
        parser.add_argument("--force", action="store_true", help="overwrite FILE")
        parser.add_argument("--json", action="store_true", help="print the capture itself")
        parser.add_argument(
            "--literals", action="store_true", help="keep the literals of queries: people's data"
        )

    def run(self, args: argparse.Namespace) -> int:
        """Trace, then write or print."""
        from .. import output_file, session

        if args.output:
            output_file.check(args.output, force=args.force)
        progress, room, names = _Progress(args), _Room(args), _NamesLost()
        with tracing.attached(args, tracing.find_any, literals=args.literals, keeps=True) as (
            tracer,
            watched,
            stopper,
        ):
            tracing.note(args, f"Tracing {tracer.target}. Ctrl-C to stop.")

            watch = tracing.watch(args, tracer, before=progress.clear)

            def tick() -> None:
                tracer.poll()
                tracing.say_failures(args, tracer.failures)
                room.look()
                names.look(tracer)
                watch()
                if progress.is_due():
                    progress.show(tracer.counts())

            session.run(stopper, watched, args.duration, tick, tracer.failures, rest=tracer.rest)
            progress.clear()
            taken = tracer.stop()
            tracing.say_failures(args, tracer.failures)
            _deliver(taken, args, stopper)
        tracing.check_complete(args, taken)
        return 0


def _deliver(taken: "Capture", args: argparse.Namespace, stopper: "Stopper") -> None:
    """Write it, and print what was asked for; if that fails, keep it elsewhere and say so."""
    from .. import capture_file, output_file
    from ..errors import LeftError

    try:
        data = capture_file.encode(taken)
    except Exception as error:
        from ..reporters import text

        print(text.render(taken), end="", flush=True)
        raise PgtraceError(f"no file can be made of the capture: {error}; see above") from error
    if args.output:
        try:
            wrote = output_file.write(data, args.output, force=args.force)
        except (OSError, PgtraceError) as error:
            raise PgtraceError(f"{error}. {_keep(data, args, taken)}") from error
        tracing.note(args, wrote)
    try:
        with stopper.may_leave():
            if args.json:
                print(data.decode(), end="")
            elif not args.output:
                from ..reporters import text

                print(text.render(taken), end="")
            sys.stdout.flush()
    except BrokenPipeError:
        raise
    except LeftError as error:
        if args.output:
            return
        raise LeftError(f"{error}. {_keep(data, args)}") from error
    except Exception as error:
        if args.output:
            raise
        raise PgtraceError(
            f"the report could not be printed: {error}. {_keep(data, args)}"
        ) from error


def _keep(data: bytes, args: argparse.Namespace, shown: "Capture | None" = None) -> str:
    """Keep a capture wherever there is room for it, and say where; `shown` in the worst case."""
    from .. import keeping

    kept = keeping.keep(data, args.output)
    if kept:
        return f"The capture was kept: {kept}"
    if shown is None:
        return "No file system has room for the capture"
    if sys.stdout.isatty():
        from ..reporters import text

        print(text.render(shown), end="", flush=True)
        return "No file system has room for the capture: its report is above"
    print(data.decode(), end="", flush=True)
    return "No other file system has room either: the capture went to stdout"


class _Room:
    """Says in time that there is little room for the capture, once."""

    _EVERY_S = 5.0

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._next = 0.0 if args.output else float("inf")

    def look(self) -> None:
        from .. import keeping

        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + self._EVERY_S
        words = keeping.little_room(self._args.output)
        if words:
            print(f"pgtrace: {escape(words)}", file=sys.stderr)
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
            print(
                "pgtrace: there is no room for more statements: calls of others are counted, but "
                "without their text. Raise --max-statements.",
                file=sys.stderr,
            )


class _Progress:
    """One line on a terminal, about once a second."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._wanted = sys.stderr.isatty() and not args.quiet
        self._start = self._last = time.monotonic()

    def is_due(self) -> bool:
        now = time.monotonic()
        if not self._wanted or now - self._last < 1:
            return False
        self._last = now
        return True

    def show(self, counts: "dict[Operation, int]") -> None:
        from ..reporters.block import NAMES

        so_far = ", ".join(f"{count:,} {NAMES[each]}" for each, count in counts.items())
        print(f"\r{self._last - self._start:.0f} s, {so_far} ", end="", file=sys.stderr)

    def clear(self) -> None:
        if self._wanted:
            print("\r\033[K", end="", file=sys.stderr)


COMMAND = CaptureCommand()
