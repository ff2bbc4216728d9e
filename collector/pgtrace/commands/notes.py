"""What a command says beside its data, on stderr: at once, while it traces."""

import argparse
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..stderr import say
from ..terminal_text import escape

if TYPE_CHECKING:
    from ..failures import Failures
    from ..tracing.tracer import Tracer

_IN_USE_EVERY_S = 10


def note(args: argparse.Namespace, message: str) -> None:
    """Say something that is not data."""
    if not args.quiet:
        say(escape(message, lines=True))


def say_failures(
    args: argparse.Namespace, failures: "Failures", before: Callable[[], None] = lambda: None
) -> None:
    """Say at once what went wrong of our own since the last call; with -v, the traceback. `before`
    is called before something is said.
    """
    for reason, traceback in failures.news():
        before()
        words = f"{reason}\n{traceback.rstrip()}" if args.verbose else reason
        say(f"pgtrace: unexpected error: {escape(words, lines=True)}")


def watch(
    args: argparse.Namespace, tracer: "Tracer", before: Callable[[], None] = lambda: None
) -> Callable[[], None]:
    """What to call at each tick: it says at once what is lost, that there will be no names and,
    with -v, now and then how much of the room in the kernel is in use. `before` is called before
    something is said.
    """
    from ..reporters.losses import Watch

    def tell(message: str) -> None:
        before()
        say(message)

    losses = Watch(tracer.lost, tracer.kept, tell)
    due, said = 0.0, set[str]()

    def tick() -> None:
        nonlocal due
        losses.tick()
        for failure in tracer.names.failures if tracer.names else []:
            if failure not in said:
                said.add(failure)
                tell(f"pgtrace: no names: {escape(failure)}")
        if args.verbose and time.monotonic() >= due and (used := tracer.in_use()):
            due = time.monotonic() + _IN_USE_EVERY_S
            counts = ", ".join(f"{number} {name}" for name, number in used._asdict().items())
            tell(f"In use in the kernel: {counts}.")

    return tick
