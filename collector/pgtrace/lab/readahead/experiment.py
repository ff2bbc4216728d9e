"""The read-ahead experiment: read-ahead, scans and random reads."""

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from ... import stderr
from ..core import command_options

if TYPE_CHECKING:
    from ..core.interruption import Interruption
    from ..core.progress import Progress
    from .result import ReadaheadResult


class ReadaheadExperiment:
    """Measure what the device's read-ahead does to a sequential scan, and to random reads.

    A copy to stdout and an index scan run cold at each read-ahead, on a
    server just restarted, in an order drawn at random. The device gets its read-ahead back at
    any end; after kill -9, by pgtrace lab restore.
    """

    examples = (
        "sudo pgtrace lab readahead --storage ssd=/mnt/ssd -o readahead.json",
        "sudo pgtrace lab readahead --storage ssd=/mnt/ssd --sectors 0,256,4096",
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the options."""
        command_options.add_arguments(parser)
        parser.add_argument(
            "--sectors",
            metavar="N,N,…",
            help="read-ahead, in sectors of 512 bytes (0,256,512,… and on to 32768, then 327680)",
        )
        parser.add_argument(
            "--rows",
            type=command_options.number,
            default=1_500_000,
            metavar="N",
            help="rows of the table (1,500,000, about 1 GiB with its index)",
        )

    def prepare(
        self, args: argparse.Namespace
    ) -> "Callable[[Progress, Interruption], ReadaheadResult]":
        """Look at what was asked for."""
        from dataclasses import replace

        from ..core import benchmark_table, laboratory
        from . import device_settings, findings, measuring

        steps = list(measuring.SECTORS) if args.sectors is None else measuring.steps(args.sectors)
        setup = command_options.setup(args, changes_device=True)
        laboratory.check_root()
        places, left_out = device_settings.usable(setup.places, shared_host=args.shared_host)
        for why in left_out.values():
            # Not a mere note: less is measured than was asked for
            stderr.say(f"pgtrace: {why}; the others go on")
        setup = replace(setup, places=places, shape=benchmark_table.WIDE)

        def measure(progress: "Progress", interruption: "Interruption") -> "ReadaheadResult":
            result = measuring.measure(
                setup,
                steps,
                runs=args.runs,
                left_out=left_out,
                progress=progress,
                interruption=interruption,
            )
            result.findings += findings.findings(result)
            return result

        return measure


EXPERIMENT = ReadaheadExperiment()
