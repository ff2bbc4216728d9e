"""What the experiments' commands have in common: storages, the server, and the result."""

import argparse
import contextlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import DatabaseError, PgtraceError, UsageError
from .. import notes

if TYPE_CHECKING:
    from ...lab.core.interruption import Interruption
    from ...lab.core.laboratory import Setup
    from ...lab.core.progress import Progress
    from ...lab.core.storages import Place
    from ...model.lab_result import Result


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
        help="although others use the server of --dsn, or a device whose settings are changed",
    )


def check_output(args: argparse.Namespace) -> None:
    """Raise UsageError if the result could not be written, before hours of work."""
    if args.output:
        from ...files import output_file

        output_file.check(args.output, force=args.force)


def setup(
    args: argparse.Namespace,
    usual: "Sequence[Place]" = (),
    *,
    wide: bool = False,
    changes_device: bool = False,
) -> "Setup":
    """What the options say: for a table with wide rows, and of an experiment that changes a
    device's settings; `usual` are the places if none is named. Raises UsageError.
    """
    from ...lab.core import benchmark_table, storages
    from ...lab.core.cpu_affinity import Pins
    from ...lab.core.laboratory import Setup
    from ...lab.core.private_server import BASE
    from ...lab.planner.table import MOST_ROWS, ROW_BYTES

    check_output(args)
    own = ("--pg-bin", args.pg_bin), ("--direct-io", args.direct_io), ("--planner", args.planner)
    for option, given in own:
        if args.dsn is not None and given:
            raise UsageError(f"{option} is for a server of its own: leave it or --dsn out")
    if args.shared_host and args.dsn is None and not changes_device:
        raise UsageError("--shared-host is for --dsn: a server of its own has no other clients")
    places = [storages.parse(text) for text in args.storage]
    if args.memory:
        places.append(storages.Place(storages.MEMORY, BASE, "memory"))
    places = places or list(usual)
    if not places:
        raise UsageError("which storage? name an empty directory: --storage ssd=/mnt/ssd")
    planner_rows = min(args.rows, MOST_ROWS) if args.planner else 0
    return Setup(
        places,
        args.rows,
        Pins(args.cpu_server, args.cpu_tracer),
        bindir=args.pg_bin,
        user=args.user,
        direct_io=args.direct_io,
        drop_caches=args.drop_caches,
        probe_type=args.probe,
        dsn=args.dsn,
        shared_host=args.shared_host,
        planner_rows=planner_rows,
        bytes_beside=planner_rows * ROW_BYTES,
        shape=benchmark_table.WIDE if wide else benchmark_table.NARROW,
    )


def run(
    args: argparse.Namespace, measure: "Callable[[Progress, Interruption], Result]"
) -> "Result":
    """Let an experiment be interrupted, and show how far it is."""
    from ...lab.core.interruption import Interruption
    from ...lab.core.progress import Progress
    from ...libbpf import objects
    from ...linux import tracepoints

    if args.verbose:
        objects.print_messages()
        tracepoints.verbose = True
    progress = Progress(quiet=args.quiet, verbose=args.verbose)
    interruption = Interruption()
    try:
        return measure(progress, interruption)
    except Exception as error:
        raise (_of_the_server(args, error) or error) from error
    finally:
        progress.clear()
        interruption.restore()


def _of_the_server(args: argparse.Namespace, error: Exception) -> PgtraceError | None:
    """What the server said against it, in one line; None if the error is another's."""
    if "psycopg" not in sys.modules:
        return None
    import psycopg

    if not isinstance(error, psycopg.Error):
        return None
    said = str(error).strip().partition("\n")[0]
    if args.dsn is not None:
        return DatabaseError(f"--dsn: {said}; what was made there is removed")
    return PgtraceError(f"the server gave up: {said}; its disk, its memory or its end may say why")


def hand_over(args: argparse.Namespace, result: "Result") -> None:
    """Write the file, and print: the result itself with --json, else its report."""
    from ...lab import result_report
    from ...model import encoding

    data = encoding.encode(result)
    if args.output:
        notes.note(args, _write(data, args))
        if result.partial:
            notes.note(args, result_report.partial(result))
    if args.json:
        sys.stdout.write(data.decode())
    elif not args.output:
        from ..report import width

        print(result_report.render(result, width=width(to_file=False)), end="")


def _write(data: bytes, args: argparse.Namespace) -> str:
    """Hours of work are not lost to a full disk: kept elsewhere, and said so."""
    from ...files import output_file, rescue

    try:
        return output_file.write(data, args.output, force=args.force)
    except (OSError, PgtraceError) as error:
        kept = rescue.keep(data, args.output)
        if kept is None:  # also on a terminal: a report would not be the result
            print(data.decode(), end="", flush=True)
        where = f"was kept: {kept}" if kept else "went to stdout: there is no room elsewhere either"
        raise PgtraceError(f"{error}. The result {where}") from error


def number(text: str) -> int:
    """An option's value: a whole number above 0; for argparse."""
    with contextlib.suppress(ValueError):
        if text.isascii() and 0 < (found := int(text.replace(",", ""))) < 1 << 40:
            return found
    raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")


def _cpu(text: str) -> int:
    if not text.isascii() or not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not the number of a CPU")
    return int(text)
