"""The buffers experiment: shared_buffers and three levels of caching."""

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..core import command_options

if TYPE_CHECKING:
    from ..core.interruption import Interruption
    from ..core.progress import Progress
    from .result import BuffersResult


class BuffersExperiment:
    """Measure what shared_buffers does to a scan: cold, from the OS cache, and prewarmed.

    A table whose rows fill a page each is scanned at each size, on a server just
    restarted, in an order drawn at random. Shared hits, page-cache reads and device reads are
    told apart, and EXPLAIN's own I/O timing is held against the reads that were traced.
    """

    examples = (
        "sudo pgtrace lab buffers --storage ssd=/mnt/ssd -o buffers.json",
        "sudo pgtrace lab buffers --storage ssd=/mnt/ssd --shared-buffers 128kB,1GB",
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the options."""
        command_options.add_arguments(parser, own_server=True)
        parser.add_argument(
            "--shared-buffers",
            metavar="SIZE,SIZE,…",
            default="128kB,32MB,512MB",
            help="the sizes, as PostgreSQL takes them (128kB,32MB,512MB)",
        )
        parser.add_argument(
            "--rows",
            type=command_options.number,
            default=65_000,
            metavar="N",
            help="rows of the table, each on a page of its own (65,000, 508 MiB)",
        )

    def prepare(
        self, args: argparse.Namespace
    ) -> "Callable[[Progress, Interruption], BuffersResult]":
        """Look at what was asked for."""
        from dataclasses import replace

        from ..core import laboratory
        from ..core.private_server import BASE, check_private
        from ..core.storages import Place
        from . import findings, measuring, sizes, table

        usual = [Place("server", BASE, with_server=True)]
        setup = replace(
            command_options.setup(args, usual=usual),
            shape=table.SHAPE,
            load=table.load,
            touched=False,
        )
        laboratory.check_root()
        measuring.check_places(setup.places)
        cluster = check_private(args.pg_bin, args.user)
        asked = sizes.sizes(args.shared_buffers, cluster)
        sizes.check_memory(asked, args.rows * setup.shape.row_bytes)
        table.check_prewarm(cluster)

        def measure(progress: "Progress", interruption: "Interruption") -> "BuffersResult":
            result = measuring.measure(
                setup, asked, runs=args.runs, progress=progress, interruption=interruption
            )
            result.findings += findings.findings(result)
            return result

        return measure


EXPERIMENT = BuffersExperiment()
