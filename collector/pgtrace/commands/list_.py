"""pgtrace list: the PostgreSQL servers of this host, and which statements run there how long."""

import argparse
import textwrap
from collections import Counter
from typing import Any

from .. import stderr
from ..errors import PermissionDeniedError, TargetError
from ..postgres import discovery, proc
from ..postgres.activity import LOOKED_AT, Activity, Looker, longest_first
from ..postgres.discovery import Backend, Server
from ..postgres.hidden_servers import hidden_servers, no_server
from ..terminal_text import ELLIPSIS, escape
from ..units import duration

_HEADINGS = ("PID", "FOR", "WAIT", "DATABASE", "USER", "STATEMENT")
_ALL_HEADINGS = ("PID", "BACKEND TYPE", "DATABASE", "USER", "ACTIVITY")
_WIDTH = 80

Backends = list[tuple[Backend, Activity]]


class ListCommand:
    """List PostgreSQL's servers on this host, and what runs there, the longest first. Needs no
    database connection.

    What a process title does not say for certain is shown as ?, such as a name with spaces.
    """

    examples = (
        "sudo pgtrace list",
        "sudo pgtrace list --all",
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the options."""
        parser.add_argument("--all", action="store_true", help="one line for every process")
        parser.add_argument("--json", action="store_true", help="print JSON")

    def run(self, args: argparse.Namespace) -> int:
        """Print every server, or raise TargetError when there is none."""
        servers = discovery.servers()
        family = proc.by_parent()
        found = [
            (server, looked_at(server, backends))
            for server in servers
            if (backends := server.backends(family))  # none once it has stopped
        ]
        hidden = hidden_servers()
        if hidden and not found:
            raise PermissionDeniedError(hidden)
        if args.json:
            import json

            print(json.dumps({"servers": [as_json(*each) for each in found]}, indent=2))
        elif found:
            drawn = table_of_all if args.all else table
            print("\n\n".join("\n".join(drawn(*each)) for each in found))
        if hidden:
            stderr.say(f"pgtrace: not listed: {hidden}")
        if not found:
            raise TargetError(no_server())
        return 0


def looked_at(server: Server, backends: list[Backend]) -> Backends:
    """Each with what it does."""
    looker = Looker(server.postmaster_pid)
    return [(backend, looker.look(backend)) for backend in backends]


def table(server: Server, backends: Backends) -> list[str]:
    """Draw one server: a line for each that runs something, or keeps a transaction open; the rest
    summed up."""
    idle: Counter[str] = Counter()
    others: Counter[str] = Counter()
    workers: Counter[int] = Counter()
    busy: Backends = []
    for backend, activity in backends:
        if backend.leader_pid is not None:
            workers[backend.leader_pid] += 1
        elif backend.backend_type not in LOOKED_AT:
            others[backend.backend_type or "?"] += 1
        elif activity.state == "idle":
            idle[f"{_known(backend.usename)} at {_known(backend.datname)}"] += 1
        else:
            busy.append((backend, activity))
    lines = [_head(server)]
    if busy:
        rows = [_row(*each, workers[each[0].pid]) for each in longest_first(busy)]
        lines += [_cut(line) for line in _drawn([_HEADINGS, *rows], right=2)]
    else:
        lines.append("Nothing runs.")
    if idle:
        lines += textwrap.wrap(f"Idle: {idle.total()} ({_summed(idle)})", _WIDTH)
    return lines + textwrap.wrap(f"Of the server itself: {_summed(others)}", _WIDTH)


def table_of_all(server: Server, backends: Backends) -> list[str]:
    """Draw one server with a line for each process."""
    rows = [_row_of_all(backend) for backend, _ in backends]
    return [_head(server), *_drawn([_ALL_HEADINGS, *rows], right=1)]


def as_json(server: Server, backends: Backends) -> dict[str, Any]:
    """Describe one server in the words of a capture; null is what is not known."""
    return {
        "version": server.version,
        "postmaster_pid": server.postmaster_pid,
        "data_directory": server.data_directory,
        "block_size": server.block_size,
        "port": server.port,
        "socket_directory": server.socket_directory,
        "cluster_name": server.cluster_name,
        "binary": server.postmaster.exe,
        "backends": [
            {
                "pid": backend.pid,
                "backend_type": backend.backend_type,
                "datname": backend.datname,
                "usename": backend.usename,
                "application_name": backend.application_name,
                "client_addr": backend.client_addr,
                "client_port": backend.client_port,
                "activity": backend.activity,
                "leader_pid": backend.leader_pid,
                "seconds": activity.seconds,
                "wait_event_type": activity.wait_event_type,
                "query": activity.query,
            }
            for backend, activity in backends
        ],
    }


def _head(server: Server) -> str:
    head = [f"PostgreSQL {server.version or '?'}"]
    if server.cluster_name:
        head.append(server.cluster_name)
    if server.port is not None:
        head.append(f"port {server.port}")
    return escape("  ".join([*head, server.data_directory]))


def _drawn(rows: list[tuple[str, ...]], right: int) -> list[str]:
    """Columns as wide as their widest cell, the first ones to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if at < right else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row[:-1], widths, strict=True))
        ]
        lines.append("  ".join([*cells, row[-1]]).rstrip())
    return lines


def _cut(line: str) -> str:
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}{ELLIPSIS}"


def _row(backend: Backend, activity: Activity, workers: int) -> tuple[str, ...]:
    seconds = activity.seconds
    what = activity.query or backend.activity or "?"
    if activity.state and activity.state != "active":
        what = f"({activity.state})"
    if backend.backend_type != "client backend":
        what = f"{backend.backend_type}: {what}"
    if workers:
        what = f"with {workers} parallel worker{'s' if workers > 1 else ''}: {what}"
    return (
        str(backend.pid),
        "?" if seconds is None else duration(round(seconds, 3) * 1e9),
        activity.wait_event_type or "",
        _known(backend.datname),
        _known(backend.usename),
        escape(what),
    )


def _row_of_all(backend: Backend) -> tuple[str, ...]:
    # A client always has names: where the title leaves them open, say so.
    unknown = "?" if backend.client_addr else ""
    activity = backend.activity or unknown
    if backend.leader_pid is not None:
        activity = f"for {backend.leader_pid} {activity}".rstrip()
    return (
        str(backend.pid),
        escape(backend.backend_type or "?"),
        escape(backend.datname or unknown),
        escape(backend.usename or unknown),
        escape(activity),
    )


def _known(name: str | None) -> str:
    return escape(name or "?")


def _summed(counts: Counter[str]) -> str:
    """`postmaster, 3 walsender`: those first of which there are most."""
    return ", ".join(
        escape(name if number == 1 else f"{number} {name}") for name, number in counts.most_common()
    )


COMMAND = ListCommand()
