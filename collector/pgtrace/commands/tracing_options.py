"""Options of attach, top and capture: what to trace, what to measure, how, when to stop."""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..model.capture import Operation

MOST_STATEMENTS = 5000


def add_arguments(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    """Options of every command that traces: one backend, or `several` of them and servers."""
    target = parser.add_argument_group("what to trace")
    what, again = "the backend's process ID", "the same, as an option"
    if several:
        what = "a backend's process ID, or a postmaster's for its whole server"
        again += "; may be given several times"
    target.add_argument("target", nargs="?", type=pid, metavar="PID", help=what)
    target.add_argument("-p", "--pid", type=pid, metavar="PID", action="append", help=again)
    if several:
        _add_servers(target)
    _add_measures(parser.add_argument_group("what to measure"), several=several)
    how = parser.add_argument_group("how to trace")
    how.add_argument(
        "--probe",
        choices=("fentry", "kprobe", "tracepoint"),
        help="the probe type for reads, writes and fsyncs; by default the best that the kernel "
        "allows",
    )
    how.add_argument(
        "--engine",
        choices=("libbpf", "bcc"),
        help="bcc is for kernels without BTF, and needs the kernel's headers; by default libbpf "
        "where it works",
    )
    if several:
        _add_capacity(how)


def _add_measures(group: argparse._ArgumentGroup, *, several: bool) -> None:
    group.add_argument(
        "--operations",
        type=_operations,
        default=("read",),
        metavar="LIST",
        help="a comma-separated list of read, write and fsync, which includes fdatasync and "
        "sync_file_range; by default read",
    )
    by_default = "measured of single backends, not of a whole server" if several else "measured"
    group.add_argument(
        "--time",
        action=argparse.BooleanOptionalAction,
        help="where the rest of the time of queries and backends goes: on a CPU, waiting for one, "
        f"or asleep, by wait event; by default {by_default}",
    )
    by_default = "light for a whole server, full otherwise" if several else "full"
    group.add_argument(
        "--queries",
        choices=("light", "full", "none"),
        help="full: calls, latencies and reads of each statement, by probes in the server; light: "
        f"its reads alone, without probes in its queries; by default {by_default}",
    )
    group.add_argument(
        "--by",
        choices=("kind", "relation"),
        default="relation",
        help="count reads by relation, or by kind of file alone, for which the kernel needs less "
        "memory; by default relation",
    )
    group.add_argument(
        "--no-charge",
        dest="charge",
        action="store_false",
        help="do not charge the reads of parallel workers and I/O workers to the backend that "
        "they work for",
    )
    group.add_argument(
        "--dsn",
        metavar="DSN",
        help="connect this way for names of relations and users, and not as the server's owner by "
        "its Unix-domain socket: a connection string of libpq's, or '' for what the PG* "
        "environment variables say",
    )
    group.add_argument(
        "--no-connect",
        dest="connect",
        action="store_false",
        help="do not connect to the server: names are then what the titles of processes tell",
    )
    group.add_argument(
        "--require-names",
        action="store_true",
        help="exit with 7 if the connection fails, or a database may not be seen",
    )


def _add_servers(group: argparse._ArgumentGroup) -> None:
    """Options of commands that can trace several processes."""
    group.add_argument(
        "--server",
        metavar="DIR|PORT",
        help="the whole server with this data directory or port, processes that start later "
        "included",
    )
    group.add_argument("--all", action="store_true", help="all servers on this host")
    for name, words in (
        ("datname", "of this database"),
        ("usename", "of this user"),
        ("backend-type", "of this type, such as walwriter"),
    ):
        group.add_argument(
            f"--{name}",
            metavar="NAME",
            action="append",
            help=f"only backends {words}; may be given several times",
        )
    group.add_argument(
        "--wait", action="store_true", help="wait for a backend that passes these filters"
    )
    group.add_argument(
        "--own-queries",
        action="store_true",
        help="trace the backends of pgtrace's own connections, too",
    )


def _add_capacity(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--max-backends",
        type=count,
        default=1024,
        metavar="N",
        help="how many processes of servers can be traced at once (1024); never fewer than run "
        "already",
    )
    group.add_argument(
        "--max-statements",
        type=count,
        default=MOST_STATEMENTS,
        metavar="N",
        help="how many statements are kept apart, of all backends together (5000); the others "
        "are added up for each backend",
    )


def output_group(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """For when to stop and what to write: these two, and what the command adds."""
    group = parser.add_argument_group("when to stop, and what to write")
    group.add_argument("--duration", type=seconds, metavar="S", help="stop after S seconds")
    group.add_argument(
        "--strict",
        action="store_true",
        help="exit with 6 if anything was lost, or could not be measured",
    )
    return group


def pid(text: str) -> int:
    """An option's value that is the number of a process; for argparse."""
    if not _is_number(text) or not 0 < int(text) < 1 << 22:
        raise argparse.ArgumentTypeError(f"{text!r} is not a pid")
    return int(text)


def _is_number(text: str) -> bool:
    """Whether int() takes it, which of thousands of digits raises ValueError."""
    return text.isascii() and text.isdecimal() and len(text) < 20


def _operations(text: str) -> "tuple[Operation, ...]":
    from ..engines import OPERATIONS

    asked = text.split(",")
    wrong = [each for each in asked if each not in OPERATIONS]
    if wrong:
        raise argparse.ArgumentTypeError(
            f"{wrong[0]!r} is none of {', '.join(OPERATIONS)}; separate several by commas"
        )
    return tuple(each for each in OPERATIONS if each in asked)


def count(text: str) -> int:
    """An option's value from 1 to 65536; for argparse."""
    if not _is_number(text) or not 0 < int(text) <= 1 << 16:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 65536")
    return int(text)


def seconds(text: str) -> float:
    """An option's value in seconds, above 0; for argparse."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if not 0 < seconds < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return seconds
