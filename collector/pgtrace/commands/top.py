"""pgtrace top: a whole server, live."""

import argparse
import sys
from typing import TYPE_CHECKING

from ..errors import UsageError
from . import find_target, notes, session, tracing_options

if TYPE_CHECKING:
    from ..live.frame import Kind
    from ..live.teller import Teller
    from ..tracing.tracer import Tracer

_TABS: "dict[str, Kind]" = {
    "backends": "backend",
    "statements": "statement",
    "relations": "relation",
    "devices": "device",
    "wait-events": "wait event",
}


class TopCommand:
    """Show live who reads, for which statement, of what, and from where: one look a second.

    Without a target it shows the only server on this host. `?` tells the keys, q leaves.
    """

    examples = (
        "sudo pgtrace top",
        "sudo pgtrace top --server 5432 --time",
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the options."""
        tracing_options.add_arguments(parser, several=True)
        output = parser.add_argument_group("what to show, and when to stop")
        output.add_argument(
            "--tab", choices=tuple(_TABS), default="backends", help="the first list (backends)"
        )
        output.add_argument(
            "--batch",
            type=tracing_options.count,
            metavar="N",
            help="print N screens as text, one a second, and leave: for scripts",
        )
        output.add_argument(
            "--duration", type=tracing_options.seconds, metavar="S", help="stop after S seconds"
        )

    def run(self, args: argparse.Namespace) -> int:
        """Trace and show."""
        if args.batch is None and not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise UsageError("this is no terminal: `pgtrace top --batch 1` prints a screen as text")
        return _batch(args) if args.batch else _screen(args)


def _batch(args: argparse.Namespace) -> int:
    from ..live import text
    from ..live.kept import Kept
    from ..tracing import run_loop
    from .report import width

    with session.attached(args, find_target.find_any, literals=False, live=True) as parts:
        tracer, watched, stopper = parts
        teller, kept, left = _teller(tracer), Kept(), args.batch
        begin = teller.begin(by_relation=args.by == "relation")

        def tick() -> None:
            nonlocal left
            tracer.poll()
            notes.say_failures(args, tracer.failures)
            frame = teller.frame()
            if frame is None or not left:
                return
            for notice in frame.notices:
                print(notice, file=sys.stderr)
            kept.add(frame)
            print(text.screen(begin, kept, _TABS[args.tab], rows=20, width=width(to_file=False)))
            sys.stdout.flush()
            left -= 1
            if not left:
                stopper.stop()

        run_loop.run(stopper, watched, args.duration, tick, tracer.failures, rest=tracer.rest)
    return 0


def _screen(args: argparse.Namespace) -> int:
    raise UsageError("not yet")


def _teller(tracer: "Tracer") -> "Teller":
    from ..live.teller import Teller

    assert tracer.recorder
    return Teller(tracer, tracer.recorder)


COMMAND = TopCommand()
