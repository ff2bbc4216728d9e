"""pgtrace report: a captured file, in the form that is wanted."""

import argparse
import gc
import importlib
import io
import shutil
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..errors import DatabaseError, UsageError
from ..reporters import FORMATS
from ..reporters.view import WIDTH
from . import notes, report_views

if TYPE_CHECKING:
    from ..model.capture import Capture
    from ..model.lab_result import Result


class ReportCommand:
    """Show a file: as text, JSON or a page for a browser; a capture also as an HdrHistogram log, a
    table of comma-separated values, folded stacks or speedscope's JSON for flame graphs, or metrics
    for Prometheus.

    Needs no root, no kernel support and no server: only the file.
    """

    examples = (
        "pgtrace report busy.json",
        "pgtrace report --format html -o busy.html busy.json",
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the options."""
        parser.add_argument(
            "file", metavar="FILE", help="what `capture -o` or `lab … -o` wrote; - is stdin"
        )
        form = parser.add_mutually_exclusive_group()
        form.add_argument(
            "--format",
            choices=FORMATS,
            metavar="FORM",
            default="text",
            help=f"{', '.join(FORMATS)}; text if not given",
        )
        form.add_argument(
            "--json", dest="format", action="store_const", const="json", help="--format json"
        )
        parser.add_argument(
            "--planner",
            action="store_true",
            help="show what reading a page cost, instead of the report",
        )
        parser.add_argument(
            "--dsn",
            metavar="DSN",
            help="with --planner: connect, and show which statements of this role would have "
            "another plan at another random_page_cost; it must be no superuser; '' takes libpq's "
            "environment",
        )
        parser.add_argument("-o", "--output", metavar="OUT", help="write it there, not to stdout")
        parser.add_argument("--force", action="store_true", help="overwrite OUT")
        report_views.add_arguments(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Read, render, then print or write."""
        from ..files import output_file
        from ..lab import result_file
        from ..model.capture import Capture

        if args.planner and args.format not in {"text", "json"}:
            raise UsageError(f"--planner has no form {args.format}: text or json")
        if args.dsn is not None and not args.planner:
            raise UsageError("--dsn is for --planner: without it a report needs no connection")
        report_views.check(args)
        if args.output is not None:
            output_file.check_apart(args.output, [args.file])
            output_file.check(args.output, args.force)
        document, to_file = result_file.load_any(args.file), args.output is not None
        gc.freeze()  # what was read stays to the end: the collector need not look at it
        if args.planner and isinstance(document, Capture):
            parts: Iterable[str] = [_planner(document, args, to_file=to_file)]
        else:
            parts = _report(document, args, to_file=to_file)
        if args.output is None:
            sys.stdout.writelines(parts)
        else:
            whole = io.BytesIO()  # grows where it is: parts that are joined would be there twice
            whole.writelines(part.encode() for part in parts)
            wrote = output_file.write(whole.getvalue(), args.output, args.force)
            notes.note(args, wrote)
        return 0


def _report(
    document: "Capture | Result", args: argparse.Namespace, *, to_file: bool
) -> Iterable[str]:
    """In the form that was asked for. Text on a terminal is as wide as that."""
    from ..model.capture import Capture

    form = FORMATS[args.format]
    module: str | None = form.of_captures
    if not isinstance(document, Capture):
        module = form.of_results
        what = "--planner" if args.planner else report_views.given(args)
        if what or module is None:
            raise UsageError(
                f"{what or f'--format {args.format}'} is for captures, and {args.file} is the "
                "result of a lab experiment: without it, its report is shown"
            )
    made = importlib.import_module(f"pgtrace.{module}")
    view = report_views.view(args, width(to_file))
    report: Iterable[str] = made.report(document, view)
    return report


def _planner(capture: "Capture", args: argparse.Namespace, *, to_file: bool) -> str:
    from ..reporters import page_costs

    plans = None
    if args.dsn is not None:
        from ..postgres.explain import explain

        try:
            plans = explain(args.dsn, capture)
        except DatabaseError as error:
            raise DatabaseError(
                f"plans cannot be asked for: {error}. Mend --dsn; without it, costs alone are shown"
            ) from error
    if args.format == "json":
        return page_costs.render_json(capture, plans)
    return page_costs.render(capture, plans, width=width(to_file))


def width(to_file: bool) -> int:
    """How wide text may be: as the terminal, where it goes to one."""
    return WIDTH if to_file or not sys.stdout.isatty() else shutil.get_terminal_size().columns


COMMAND = ReportCommand()
