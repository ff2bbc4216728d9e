"""pgtrace lab buffers: shared_buffers and three levels of caching."""

import argparse

from . import lab_options


class BuffersCommand:
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
        lab_options.add_arguments(parser, own_server=True)
        parser.add_argument(
            "--shared-buffers",
            metavar="SIZE,SIZE,…",
            default="128kB,32MB,512MB",
            help="the sizes, as PostgreSQL takes them (128kB,32MB,512MB)",
        )
        parser.add_argument(
            "--rows",
            type=lab_options.number,
            default=65_000,
            metavar="N",
            help="of the table, each of which is a page (65,000, 508 MiB)",
        )
        parser.set_defaults(memory=False, direct_io=False, planner=False)

    def run(self, args: argparse.Namespace) -> int:
        """Measure, then write or print."""
        import dataclasses

        from ...lab.buffers import (
            experiment as buffers_experiment,
        )
        from ...lab.buffers import (
            findings as buffers_findings,
        )
        from ...lab.buffers import (
            sizes as buffers_sizes,
        )
        from ...lab.buffers import (
            table as buffers_table,
        )
        from ...lab.core import laboratory
        from ...lab.core.private_server import BASE, check_private
        from ...lab.core.storages import Place

        own = [] if args.storage else [Place("server", BASE, with_server=True)]
        setup = dataclasses.replace(
            lab_options.setup(args, own),
            shape=buffers_table.SHAPE,
            load=buffers_table.load,
            touched=False,
        )
        laboratory.check_root()
        buffers_experiment.check_places(setup.places)
        cluster = check_private(args.pg_bin, args.user)
        sizes = buffers_sizes.sizes(args.shared_buffers, cluster)
        buffers_sizes.check_memory(sizes, args.rows * setup.shape.row_bytes)
        buffers_table.check_prewarm(cluster)
        result = lab_options.run(
            args,
            lambda progress, interruption: buffers_experiment.measure(
                setup, sizes, runs=args.runs, progress=progress, interruption=interruption
            ),
        )
        result.findings += buffers_findings.findings(result)
        lab_options.hand_over(args, result)
        return 0


COMMAND = BuffersCommand()
