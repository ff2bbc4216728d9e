"""The pages experiment: sequential against random page reads."""

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..core import command_options

if TYPE_CHECKING:
    from ..core.interruption import Interruption
    from ..core.progress import Progress
    from .result import PagesResult


class PagesExperiment:
    """Measure what a sequential and a random page read cost, on each storage.

    A table is loaded into each; a sequential and an index scan of it run cold, on a server just
    restarted, in an order drawn at random. Nothing is left at the end, also after Ctrl-C, which
    keeps the runs that were whole.
    """

    examples = (
        "sudo pgtrace lab pages --storage ssd=/mnt/ssd --memory -o pages.json",
        "sudo pgtrace lab pages --storage ssd=/mnt/ssd --rows 1000000 --runs 3",
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the options."""
        command_options.add_arguments(parser)
        parser.add_argument(
            "--memory",
            action="store_true",
            help="also the same table held in the page cache",
        )
        parser.add_argument(
            "--rows",
            type=command_options.number,
            default=10_000_000,
            metavar="N",
            help="rows of the table (10,000,000, about 1 GiB with its index)",
        )
        parser.add_argument(
            "--direct-io",
            action="store_true",
            help="let the server read past the page cache (PostgreSQL 16 and later)",
        )
        parser.add_argument(
            "--planner",
            action="store_true",
            help="also time sequential, bitmap and index scans, and say what random_page_cost "
            "should be: some ten minutes more for an SSD, half an hour for a disk",
        )

    def prepare(
        self, args: argparse.Namespace
    ) -> "Callable[[Progress, Interruption], PagesResult]":
        """Look at what was asked for."""
        from dataclasses import replace

        from ..core.private_server import BASE
        from ..core.storages import MEMORY, Place
        from ..planner import findings as planner_findings
        from ..planner.table import MOST_ROWS, ROW_BYTES
        from . import findings, measuring

        memory = [Place(MEMORY, BASE, "memory")] if args.memory else []
        private = ("--direct-io", args.direct_io), ("--planner", args.planner)
        planner_rows = min(args.rows, MOST_ROWS) if args.planner else 0
        setup = replace(
            command_options.setup(args, more=memory, private=private),
            direct_io=args.direct_io,
            planner_rows=planner_rows,
            bytes_beside=planner_rows * ROW_BYTES,
        )

        def measure(progress: "Progress", interruption: "Interruption") -> "PagesResult":
            result = measuring.measure(setup, args.runs, progress, interruption)
            result.findings += planner_findings.findings(result)
            result.findings += findings.findings(result)
            return result

        return measure


EXPERIMENT = PagesExperiment()
