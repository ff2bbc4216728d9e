"""pgtrace lab sync: fsync and checkpoints of two servers."""

import argparse
from typing import TYPE_CHECKING

from . import lab_options

if TYPE_CHECKING:
    from ...lab.sync.experiment import Setup


class SyncCommand:
    """Compare what making data last costs two servers: two binaries, or one with other settings.

    The published load, a fixed number of transactions and a bulk insert, each with a CHECKPOINT
    after it, runs on one and on the other, in an order drawn at random. Nothing is left at the
    end, also after Ctrl-C, which keeps the turns that were whole.
    """

    examples = (
        "sudo pgtrace lab sync --server a=/opt/pg17/bin --server b=/opt/pg18/bin",
        "sudo pgtrace lab sync --server a=/opt/18/bin --server b=/opt/18/bin,fsync=off",
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the options."""
        parser.add_argument(
            "--server",
            action="append",
            default=[],
            metavar="NAME=BINDIR[,setting=value…]",
            help="a server's programs, and settings of its own; twice",
        )
        for what, held in (("wal", "the WAL"), ("data", "everything else")):
            parser.add_argument(
                f"--{what}-storage",
                metavar="NAME=DIR",
                help=f"an empty directory for {held} of both, and what to call it "
                + ("(with the data)" if what == "wal" else "(/var/tmp)"),
            )
        for option, default, text in (
            ("rows", 200_000, "users in the table, from which wide keys are drawn"),
            ("transactions", 4_000, "of all writers together in each load; as many are read"),
            ("clients", 8, "writers, and as many readers"),
            ("bulk-rows", 500_000, "of the bulk insert"),
        ):
            parser.add_argument(
                f"--{option}",
                type=lab_options.number,
                default=default,
                metavar="N",
                help=f"{text} ({default:,})",
            )
        lab_options.add_runs(parser)
        lab_options.add_user(parser)
        lab_options.add_way(parser)
        lab_options.add_output(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Measure, then write or print."""
        from ...lab.sync import experiment as sync_experiment
        from ...lab.sync import findings as sync_findings

        setup = _setup(args)
        result = lab_options.run(
            args,
            lambda progress, interruption: sync_experiment.measure(setup, progress, interruption),
        )
        result.findings += sync_findings.findings(result)
        lab_options.hand_over(args, result)
        return 0


def _setup(args: argparse.Namespace) -> "Setup":
    """What the options say. Raises UsageError."""
    from ...errors import UsageError
    from ...lab.core.storages import parse
    from ...lab.sync import servers as sync_servers
    from ...lab.sync.experiment import Setup
    from ...lab.sync.load import Size

    lab_options.check_output(args)
    if args.transactions < args.clients:
        raise UsageError(
            f"--transactions {args.transactions} are fewer than --clients {args.clients}: "
            "give each client one"
        )
    wal, data = (
        parse(text, option=option) if text else None
        for option, text in (
            ("--wal-storage", args.wal_storage),
            ("--data-storage", args.data_storage),
        )
    )
    return Setup(
        [sync_servers.parse(text) for text in args.server],
        Size(args.rows, args.transactions, args.clients, args.bulk_rows),
        args.runs,
        wal=wal,
        data=data,
        user=args.user,
        probe_type=args.probe,
    )


COMMAND = SyncCommand()
