"""What a command says beside its data, on stderr: at once, while it traces."""

import argparse
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..terminal_text import escape

if TYPE_CHECKING:
    from ..failures import Failures
    from ..tracing.tracer import Tracer

_IN_USE_EVERY_S = 10


def note(args: argparse.Namespace, message: str) -> None:
    """Say something that is not data."""
    if not args.quiet:
        print(message, file=sys.stderr)


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
    due, said = 0.0, set[str]()

    def tick() -> None:
        nonlocal due
        losses.tick()
        for failure in tracer.names.failures if tracer.names else []:
            if failure not in said:
                said.add(failure)
                say(f"pgtrace: no names: {escape(failure)}")
        if args.verbose and time.monotonic() >= due and (used := tracer.in_use()):
            due = time.monotonic() + _IN_USE_EVERY_S
            counts = ", ".join(f"{number} {name}" for name, number in used._asdict().items())
            say(f"In use in the kernel: {counts}.")

    return tick
