"""pgtrace report: a captured file, in the form that is wanted."""

import argparse
import shutil
import sys
from typing import TYPE_CHECKING

from . import tracing

if TYPE_CHECKING:
    from ..capture import Capture

FORMATS = ("text", "json", "hlog")


class ReportCommand:
    """Show a capture: as text, as JSON, or as an HdrHistogram log of its read latencies.

    Needs no root, no kernel support and no server: only the file.
    """

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the options."""
        parser.add_argument(
            "file", metavar="FILE", help="what `pgtrace capture -o` wrote; - is stdin"
        )
        parser.add_argument("--format", choices=FORMATS, default="text", help="text if not given")
        parser.add_argument(
            "--json", dest="format", action="store_const", const="json", help="--format json"
        )
        parser.add_argument("-o", "--output", metavar="OUT", help="write it there, not to stdout")
        parser.add_argument("--force", action="store_true", help="overwrite OUT")

    def run(self, args: argparse.Namespace) -> int:
        """Read, render, then print or write."""
        from .. import capture as captures

        if args.output is not None:
            captures.check_writable(args.output, args.force)
        report = render(captures.load(args.file), args.format, to_file=args.output is not None)
        if args.output is None:
            sys.stdout.write(report)
        else:
            captures.write_file(report.encode(), args.output, args.force)
            tracing.note(args, f"Wrote {args.output}")
        return 0


def render(capture: "Capture", form: str, *, to_file: bool = True) -> str:
    """Return the report in one of FORMATS; text on a terminal is as wide as that."""
    if form == "json":
        from ..reporters import json

        return json.render(capture)
    if form == "hlog":
        from ..reporters import hlog

        return hlog.render(capture)
    from ..reporters import text

    if to_file or not sys.stdout.isatty():
        return text.render(capture)
    return text.render(capture, width=shutil.get_terminal_size().columns)


COMMAND = ReportCommand()
