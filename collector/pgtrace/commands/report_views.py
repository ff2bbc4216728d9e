"""Options by which a report shows a part of a capture."""

import argparse

from ..errors import UsageError
from ..reporters.view import ORDERS, PARTS, Choice, View
from . import tracing_options

_VIEWS = (*PARTS, "backend", "statement")
_TIMES = ("since", "until")
_OPTIONS = ("top", "sort", *_VIEWS, *_TIMES)
_OF_CSV = ("sort", *PARTS)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    group = parser.add_argument_group("text of a capture of several backends, or its table as csv")
    group.add_argument(
        "--top",
        type=_rows,
        metavar="N",
        help="rows of each table; 10, or as many as fit a screen, if not given",
    )
    group.add_argument(
        "--sort",
        choices=ORDERS,
        help="what comes first in them; device, the time waited for it, if not given",
    )
    group.add_argument("--statements", action="store_true", help="all statements, a row each")
    group.add_argument("--relations", action="store_true", help="all relations, a row each")
    group.add_argument(
        "--backends", action="store_true", help="each backend with all that it read, in full"
    )
    group.add_argument(
        "--backend", type=tracing_options.pid, metavar="PID", help="one of them in full"
    )
    group.add_argument(
        "--statement",
        metavar="ID|TEXT",
        help="one in full, over all backends: its query_id, or what stands in it",
    )
    group.add_argument(
        "--since", metavar="TIME", help="what was done from this time of day on, in UTC: 14:05:30"
    )
    group.add_argument("--until", metavar="TIME", help="and until then")


def _rows(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 0 < len(text) < 10 or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


def given(args: argparse.Namespace) -> str | None:
    """The first of them that was given; None if none was."""
    return next((f"--{name}" for name in _OPTIONS if getattr(args, name)), None)


def check(args: argparse.Namespace) -> None:
    """Raise UsageError for an option that the form of the report has no use for."""
    views = [f"--{name}" for name in _VIEWS if getattr(args, name)]
    views += [f"--{name}" for name in _TIMES if getattr(args, name)][:1]
    if len(views) > 1:
        raise UsageError(f"{views[0]} and {views[1]} are two reports: give one of them")
    form = "--planner" if args.planner else f"--format {args.format}"
    allowed = {"--format text": _OPTIONS, "--format csv": _OF_CSV}.get(form, ())
    if (args.backend or args.statement) and (args.top or args.sort):
        said, what = "--top" if args.top else "--sort", views[0]
        raise UsageError(
            f"{said} is for tables of many, and {what} is one in full: leave {said} out"
        )
    option = next((each for each in _OPTIONS if each not in allowed and getattr(args, each)), None)
    if option:
        raise UsageError(f"--{option} is for text: leave {form} out")
    if args.since or args.until:
        from ..reporters.sections import span

        if args.sort:
            raise UsageError("--sort is not for a part of the session: what took longest is first")
        span.check(span.Span(args.since, args.until))


def view(args: argparse.Namespace, width: int) -> View:
    """What of the document is asked for."""
    part = next((each for each in PARTS if getattr(args, each)), None)
    most = args.top if part else args.top or 10
    choice = Choice(most, args.sort or "device", exact=bool(args.top))
    return View(width, choice, part, args.backend, args.statement, args.since, args.until)
