"""pgtrace lab readahead: read-ahead, scans and random reads."""

import argparse
import sys

from . import lab_options


class ReadaheadCommand:
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
        lab_options.add_arguments(parser)
        parser.add_argument(
            "--sectors",
            metavar="N,N,…",
            help="read-ahead, in sectors of 512 bytes (0,256,512,… and on to 32768, then 327680)",
        )
        parser.add_argument(
            "--rows",
            type=lab_options.number,
            default=1_500_000,
            metavar="N",
            help="of the table (1,500,000, about 1 GiB with its index)",
        )
        parser.set_defaults(memory=False, direct_io=False, planner=False)

    def run(self, args: argparse.Namespace) -> int:
        """Measure, then write or print."""
        import dataclasses

        from ...lab.core import laboratory
        from ...lab.readahead import (
            device_settings as readahead_device_settings,
        )
        from ...lab.readahead import (
            experiment as readahead_experiment,
        )
        from ...lab.readahead import (
            findings as readahead_findings,
        )

        steps = (
            list(readahead_experiment.SECTORS)
            if args.sectors is None
            else readahead_experiment.steps(args.sectors)
        )
        setup = lab_options.setup(args, wide=True, changes_device=True)
        laboratory.check_root()
        places, left_out = readahead_device_settings.usable(
            setup.places, shared_host=args.shared_host
        )
        for why in left_out.values():
            # Not a mere note: less is measured than was asked for
            print(f"pgtrace: {why}; the others go on", file=sys.stderr)
        setup = dataclasses.replace(setup, places=places)
        result = lab_options.run(
            args,
            lambda progress, interruption: readahead_experiment.measure(
                setup,
                steps,
                runs=args.runs,
                left_out=left_out,
                progress=progress,
                interruption=interruption,
            ),
        )
        result.findings += readahead_findings.findings(result)
        lab_options.hand_over(args, result)
        return 0


COMMAND = ReadaheadCommand()
