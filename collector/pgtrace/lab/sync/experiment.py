"""The sync experiment: fsync and checkpoints of two servers."""

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..core import command_options

if TYPE_CHECKING:
    from ..core.interruption import Interruption
    from ..core.progress import Progress
    from .measuring import Setup
    from .result import SyncResult


class SyncExperiment:
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
            (
                "transactions",
                4_000,
                "transactions of all writers together in each load; as many are read",
            ),
            ("clients", 8, "writers, and as many readers"),
            ("bulk-rows", 500_000, "rows of the bulk insert"),
        ):
            parser.add_argument(
                f"--{option}",
                type=command_options.number,
                default=default,
                metavar="N",
                help=f"{text} ({default:,})",
            )
        command_options.add_runs(parser)
        command_options.add_user(parser)
        command_options.add_way(parser)
        command_options.add_output(parser)

    def prepare(self, args: argparse.Namespace) -> "Callable[[Progress, Interruption], SyncResult]":
        """Look at what was asked for."""
        from . import findings, measuring

        setup = _setup(args)

        def measure(progress: "Progress", interruption: "Interruption") -> "SyncResult":
            result = measuring.measure(setup, progress, interruption)
            result.findings += findings.findings(result)
            return result

        return measure


def _setup(args: argparse.Namespace) -> "Setup":
    """What the options say. Raises UsageError."""
    from ...errors import UsageError
    from ..core.storages import parse
    from . import servers as sync_servers
    from .load import Size
    from .measuring import Setup

    command_options.check_output(args)
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


EXPERIMENT = SyncExperiment()
