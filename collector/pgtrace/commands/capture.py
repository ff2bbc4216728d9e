"""pgtrace capture: one shot."""

import argparse
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import PgtraceError
from . import tracing

if TYPE_CHECKING:
    from ..capture import Capture, Operation


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
        from .. import capture_file

        if args.output:
            capture_file.check_writable(args.output, force=args.force)
        taken = self._trace(args)
        if args.output:
            _write(taken, args)
            tracing.note(args, f"Wrote {args.output}")
        if args.json:
            from ..reporters import json

            print(json.render(taken), end="")
        elif not args.output:
            from ..reporters import text

            print(text.render(taken), end="")
        tracing.check_complete(args, taken)
        return 0

    def _trace(self, args: argparse.Namespace) -> "Capture":
        from .. import session

        progress = _Progress(args)
        with tracing.attached(args, tracing.find_any, literals=args.literals) as (
            tracer,
            watched,
            stopper,
        ):
            tracing.note(args, f"Tracing {tracer.target}. Ctrl-C to stop.")

            def tick() -> None:
                tracer.poll()
                if progress.is_due():
                    progress.show(tracer.counts())

            session.run(stopper, watched, args.duration, tick)
            progress.clear()
            return tracer.stop()


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


def _write(taken: "Capture", args: argparse.Namespace) -> None:
    """Write the capture; if that fails after all, keep it elsewhere and say so."""
    from .. import capture_file

    try:
        capture_file.write(taken, args.output, force=args.force)
    except (OSError, PgtraceError) as error:
        import tempfile

        kept = Path(tempfile.gettempdir()) / f"pgtrace-{os.getpid()}-{time.time_ns()}.json"
        capture_file.write(taken, kept, force=False)
        raise PgtraceError(f"{error}. The capture was kept: {kept}") from error


COMMAND = CaptureCommand()
