"""pgtrace lab buffers: document 004."""

import argparse

from . import lab_shared


class BuffersCommand:
    """Measure what shared_buffers does to a scan: cold, from the OS cache, and prewarmed.

    Document 004's table, whose rows fill a page each, is scanned at each size, on a server just
    restarted, in an order drawn at random. Shared hits, page-cache reads and device reads are
    told apart, and EXPLAIN's own I/O timing is held against the reads that were traced.
    """

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the options."""
        lab_shared.add_arguments(parser, own_server=True)
        parser.add_argument(
            "--shared-buffers",
            metavar="SIZE,SIZE,…",
            default="128kB,32MB,512MB",
            help="the sizes, as PostgreSQL takes them (128kB,32MB,512MB)",
        )
        parser.add_argument(
            "--rows",
            type=lab_shared.number,
            default=65_000,
            metavar="N",
            help="of the table, each of which is a page (65,000, 508 MiB)",
        )
        parser.set_defaults(memory=False, direct_io=False, planner=False)

    def run(self, args: argparse.Namespace) -> int:
        """Measure, then write or print."""
        import dataclasses

        from ..lab import buffers, buffers_findings, buffers_sizes, buffers_table, laboratory
        from ..lab.server import BASE, check_private
        from ..lab.storages import Place

        own = [] if args.storage else [Place("server", BASE, with_server=True)]
        setup = dataclasses.replace(
            lab_shared.setup(args, own),
            shape=buffers_table.SHAPE,
            load=buffers_table.load,
            touched=False,
        )
        laboratory.check_root()
        buffers.check_places(setup.places)
        cluster = check_private(args.pg_bin, args.user)
        sizes = buffers_sizes.sizes(args.shared_buffers, cluster)
        buffers_sizes.check_memory(sizes, args.rows * setup.shape.row_bytes)
        buffers_table.check_prewarm(cluster)
        result = lab_shared.run(
            args,
            lambda progress, interruption: buffers.measure(
                setup, sizes, runs=args.runs, progress=progress, interruption=interruption
            ),
        )
        result.findings += buffers_findings.findings(result)
        lab_shared.hand_over(args, result)
        return 0


COMMAND = BuffersCommand()
