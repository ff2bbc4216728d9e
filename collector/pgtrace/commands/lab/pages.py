"""pgtrace lab pages: sequential against random page reads."""

import argparse

from . import lab_options


class PagesCommand:
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
        lab_options.add_arguments(parser)
        parser.add_argument(
            "--memory",
            action="store_true",
            help="also the same table held in the page cache",
        )
        parser.add_argument(
            "--rows",
            type=lab_options.number,
            default=10_000_000,
            metavar="N",
            help="of the table (10,000,000, about 1 GiB with its index)",
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

    def run(self, args: argparse.Namespace) -> int:
        """Measure, then write or print."""
        from ...lab.pages import experiment as pages_experiment
        from ...lab.pages import findings as pages_findings
        from ...lab.planner import findings as planner_findings

        setup = lab_options.setup(args)
        result = lab_options.run(
            args,
            lambda progress, interruption: pages_experiment.measure(
                setup, args.runs, progress, interruption
            ),
        )
        result.findings += planner_findings.findings(result)
        result.findings += pages_findings.findings(result)
        lab_options.hand_over(args, result)
        return 0


COMMAND = PagesCommand()
