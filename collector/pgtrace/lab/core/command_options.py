"""Options that experiments have in common: storages, the server, and where the result goes."""

import argparse
import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import UsageError

if TYPE_CHECKING:
    from .laboratory import Setup
    from .storages import Place


def add_arguments(parser: argparse.ArgumentParser, *, own_server: bool = False) -> None:
    """Options of every experiment; without a server given, of one that has to start its own."""
    parser.add_argument(
        "--storage",
        action="append",
        default=[],
        metavar="NAME=DIR",
        help="an empty directory on a storage, and what to call it; repeatable",
    )
    add_runs(parser)
    parser.add_argument(
        "--pg-bin",
        type=Path,
        metavar="DIR",
        help="the server's programs; otherwise the newest that are installed",
    )
    add_user(parser)
    if own_server:
        parser.set_defaults(dsn=None, shared_host=False)
    else:
        _add_given(parser)
    parser.add_argument(
        "--drop-caches",
        action="store_true",
        help="empty all caches of this host before each cold run, not only those of the table",
    )
    for whom, what in (("server", "the server"), ("tracer", "pgtrace itself")):
        parser.add_argument(
            f"--cpu-{whom}", type=_cpu, metavar="N", help=f"keep {what} on this CPU"
        )
    add_way(parser)
    add_output(parser)


def add_runs(parser: argparse.ArgumentParser) -> None:
    """How often."""
    parser.add_argument(
        "--runs", type=number, default=5, metavar="N", help="how often each is measured (5)"
    )


def add_user(parser: argparse.ArgumentParser) -> None:
    """Whose servers."""
    parser.add_argument(
        "--user", default="postgres", metavar="NAME", help="who runs the server (postgres)"
    )


def add_way(parser: argparse.ArgumentParser) -> None:
    """How it is traced."""
    parser.add_argument(
        "--probe",
        choices=("fentry", "kprobe", "tracepoint"),
        help="the probe type; otherwise the best that the kernel allows",
    )


def add_output(parser: argparse.ArgumentParser) -> None:
    """Where the result goes."""
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the result there")
    parser.add_argument("--force", action="store_true", help="overwrite FILE")
    parser.add_argument("--json", action="store_true", help="print the result itself")


def _add_given(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dsn",
        metavar="DSN",
        help="a server that runs here already, in a schema of its own; '' is what libpq's "
        "environment says",
    )
    parser.add_argument(
        "--shared-host",
        action="store_true",
        help="measure even though others use the server of --dsn, or a device whose settings are "
        "changed",
    )


def check_output(args: argparse.Namespace) -> None:
    """Raise UsageError if the result could not be written, before hours of work."""
    if args.output:
        from ...files import output_file

        output_file.check(args.output, force=args.force)


def setup(
    args: argparse.Namespace,
    *,
    usual: "Sequence[Place]" = (),
    more: "Sequence[Place]" = (),
    private: Sequence[tuple[str, object]] = (),
    changes_device: bool = False,
) -> "Setup":
    """What the options say, which add_arguments() added, and `--rows`. `usual` are the places if
    there is no other, `more` are beside those that are named; `private` are further options, with
    what was given, that need a server of its own. Raises UsageError.
    """
    from . import storages
    from .cpu_affinity import Pins
    from .laboratory import Setup

    check_output(args)
    for option, given in ("--pg-bin", args.pg_bin), *private:
        if args.dsn is not None and given:
            raise UsageError(f"{option} is for a server of its own: leave it or --dsn out")
    if args.shared_host and args.dsn is None and not changes_device:
        raise UsageError("--shared-host is for --dsn: a server of its own has no other clients")
    places = [*map(storages.parse, args.storage), *more] or list(usual)
    if not places:
        raise UsageError("which storage? name an empty directory: --storage ssd=/mnt/ssd")
    return Setup(
        places,
        args.rows,
        Pins(args.cpu_server, args.cpu_tracer),
        bindir=args.pg_bin,
        user=args.user,
        drop_caches=args.drop_caches,
        probe_type=args.probe,
        dsn=args.dsn,
        shared_host=args.shared_host,
    )


def number(text: str) -> int:
    """An option's value: a whole number above 0; for argparse."""
    with contextlib.suppress(ValueError):
        if text.isascii() and 0 < (found := int(text.replace(",", ""))) < 1 << 40:
            return found
    raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")


def _cpu(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 6:
        raise argparse.ArgumentTypeError(f"{text!r} is not the number of a CPU")
    return int(text)
