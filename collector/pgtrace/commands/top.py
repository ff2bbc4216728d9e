"""pgtrace top: a whole server, live."""

import argparse
import contextlib
import io
import os
import sys
from collections import deque
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from .. import stderr, sudo
from ..errors import PgtraceError, UsageError
from . import find_target, notes, session, tracing_options

if TYPE_CHECKING:
    from ..live.frame import Asked, Kind
    from ..live.screen.process import DrawingProcess
    from ..live.teller import Teller
    from ..tracing.tracer import Tracer

_TABS: "dict[str, Kind]" = {
    "backends": "backend",
    "statements": "statement",
    "relations": "relation",
    "devices": "device",
    "wait-events": "wait event",
}


_REPEATED = 100
"""Lines that were said while the screen was drawn."""


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
        drawn = sys.stdin.isatty() and sys.stdout.isatty()
        if args.batch is None and not (drawn and os.environ.get("TERM", "dumb") != "dumb"):
            raise UsageError(
                "stdin and stdout have to be a terminal that can be drawn on: "
                f"`{sudo.as_root('top', '--batch', '1')}` prints a screen as text"
            )
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
                stderr.say(notice)
            kept.add(frame)
            print(text.screen(begin, kept, _TABS[args.tab], rows=20, width=width(to_file=False)))
            sys.stdout.flush()
            left -= 1
            if not left:
                stopper.stop()

        reason = run_loop.run(
            stopper, watched, args.duration, tick, tracer.failures, rest=tracer.rest
        )
        _check(args, tracer, reason)
    return 0


def _screen(args: argparse.Namespace) -> int:
    from ..live.screen.process import DrawingProcess

    with DrawingProcess(_TABS[args.tab], verbose=args.verbose) as drawing:
        reason = _shown(args, drawing)
    if reason == "backend ended":
        notes.note(args, "The backend ended.")
    return 0


def _shown(args: argparse.Namespace, drawing: "DrawingProcess") -> str:
    """Trace until somebody leaves, and return why it ended."""
    from ..live.answers import Answers
    from ..tracing import run_loop

    with session.attached(args, find_target.find_any, literals=False, live=True) as parts:
        tracer, watched, stopper = parts
        teller = _teller(tracer)
        answers, aside = Answers(tracer, teller), Aside(teller.notices.append)
        pending: list[Asked] = []

        def tick() -> None:
            tracer.poll()
            notes.say_failures(args, tracer.failures)
            if frame := teller.frame():
                drawing.tell(frame)
            answers.tick()
            pending.extend(drawing.asked())
            pending[:] = answers.of(pending, drawing.tell)
            if drawing.closed:
                stopper.stop()

        def rest() -> tuple[float, Collection[int]]:
            until, wakes = tracer.rest()
            until = min(until, answers.due) if pending else until
            return until, (*wakes, drawing.fileno())

        drawing.tell(teller.begin(by_relation=args.by == "relation"))
        try:
            with contextlib.redirect_stderr(aside):
                reason = run_loop.run(
                    stopper, watched, args.duration, tick, tracer.failures, rest=rest
                )
        finally:
            drawing.end()
            aside.repeat()
        _check(args, tracer, reason)
    return reason


def _check(args: argparse.Namespace, tracer: "Tracer", reason: str) -> None:
    notes.say_failures(args, tracer.failures)
    if reason == "error":
        raise PgtraceError("ended early, because of the unexpected error above")


class Aside(io.TextIOBase):
    """Takes what is said on stderr while the screen is drawn: shown there, and again afterwards."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._said: deque[str] = deque(maxlen=_REPEATED)
        self._begun = ""

    def write(self, text: str) -> int:
        """See io.TextIOBase."""
        *lines, self._begun = (self._begun + text).split("\n")
        for line in filter(None, lines):
            self._said.append(line)
            self._say(line)
        return len(text)

    def repeat(self) -> None:
        """Say it where it stays."""
        for line in self._said:
            stderr.say(line)


def _teller(tracer: "Tracer") -> "Teller":
    from ..live.teller import Teller

    assert tracer.recorder
    return Teller(tracer, tracer.recorder)


COMMAND = TopCommand()
