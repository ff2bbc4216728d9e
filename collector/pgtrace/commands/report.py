"""pgtrace report: a captured file, in the form that is wanted."""

import argparse
import gc
import shutil
import sys
from typing import TYPE_CHECKING

from ..errors import DatabaseError, UsageError
from . import tracing

if TYPE_CHECKING:
    from ..capture import Capture
    from ..lab.result import Result

FORMATS = ("text", "json", "html", "hlog")


class ReportCommand:
    """Show a file: as text, as JSON, as a page for a browser, or a capture as an HdrHistogram log.

    Needs no root, no kernel support and no server: only the file.
    """

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the options."""
        parser.add_argument(
            "file", metavar="FILE", help="what `capture -o` or `lab … -o` wrote; - is stdin"
        )
        parser.add_argument("--format", choices=FORMATS, default="text", help="text if not given")
        parser.add_argument(
            "--json", dest="format", action="store_const", const="json", help="--format json"
        )
        parser.add_argument(
            "--planner", action="store_true", help="what reading a page cost, instead"
        )
        parser.add_argument(
            "--dsn",
            metavar="DSN",
            help="with --planner: connect, and explain at other random_page_costs what this role "
            "ran, which is no superuser; '' is what libpq's environment says",
        )
        parser.add_argument("-o", "--output", metavar="OUT", help="write it there, not to stdout")
        parser.add_argument("--force", action="store_true", help="overwrite OUT")

    def run(self, args: argparse.Namespace) -> int:
        """Read, render, then print or write."""
        from .. import capture_file, output_file
        from ..capture import Capture

        if args.planner and args.format not in {"text", "json"}:
            raise UsageError(f"--planner has no form {args.format}: text or json")
        if args.dsn is not None and not args.planner:
            raise UsageError("--dsn is for --planner: without it a report needs no connection")
        if args.output is not None:
            output_file.check(args.output, args.force)
        document, to_file = capture_file.load_any(args.file), args.output is not None
        gc.freeze()  # what was read stays to the end: the collector need not look at it
        if args.format == "json" and not args.planner:
            return _json(document, args)
        if not isinstance(document, Capture):
            report = _lab(document, args, to_file=to_file)
        elif args.planner:
            report = _planner(document, args, to_file=to_file)
        else:
            report = render(document, args.format, to_file=to_file)
        if args.output is None:
            sys.stdout.write(report)
        else:
            wrote = output_file.write(report.encode(), args.output, args.force)
            tracing.note(args, wrote)
        return 0


def _json(document: "Capture | Result", args: argparse.Namespace) -> int:
    """Part by part: the whole of a large one would take as much memory again."""
    from .. import capture_file, output_file

    if args.output is None:
        for part in capture_file.encoded(document):
            sys.stdout.write(part.decode())
    else:
        wrote = output_file.write(capture_file.encode(document), args.output, args.force)
        tracing.note(args, wrote)
    return 0


def render(capture: "Capture", form: str, *, to_file: bool = True) -> str:
    """Return the report in one of FORMATS but json; text on a terminal is as wide as that."""
    if form == "html":
        from ..reporters import html

        return html.render(capture)
    if form == "hlog":
        from ..reporters import hlog

        return hlog.render(capture)
    from ..reporters import text

    return text.render(capture, width=width(to_file))


def _lab(result: "Result", args: argparse.Namespace, *, to_file: bool) -> str:
    if args.planner or args.format == "hlog":
        what = "--planner" if args.planner else "--format hlog"
        raise UsageError(
            f"{what} is for captures, and {args.file} is the result of a lab experiment: "
            "without it, its report is shown"
        )
    if args.format == "html":
        from ..reporters import html

        return html.render(result)
    from ..reporters import lab

    return lab.render(result, width=width(to_file))


def _planner(capture: "Capture", args: argparse.Namespace, *, to_file: bool) -> str:
    from ..reporters import planner

    plans = None
    if args.dsn is not None:
        from ..postgres.plans import explain

        try:
            plans = explain(args.dsn, capture)
        except DatabaseError as error:
            raise DatabaseError(
                f"plans cannot be asked for: {error}. Mend --dsn; without it, costs alone are shown"
            ) from error
    if args.format == "json":
        return planner.render_json(capture, plans)
    return planner.render(capture, plans, width=width(to_file))


def width(to_file: bool) -> int:
    """How wide text may be: as the terminal, where it goes to one."""
    from ..reporters.chart import WIDTH

    return WIDTH if to_file or not sys.stdout.isatty() else shutil.get_terminal_size().columns


COMMAND = ReportCommand()
