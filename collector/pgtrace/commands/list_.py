"""pgtrace list: the PostgreSQL servers of this host, and what their processes do."""

import argparse
import sys
from typing import Any

from ..errors import PermissionDeniedError, TargetError
from ..postgres import discovery, proc
from ..postgres.discovery import Backend, Server
from ..terminal_text import escape

_HEADINGS = ("PID", "BACKEND TYPE", "DATABASE", "USER", "ACTIVITY")


class ListCommand:
    """List PostgreSQL's servers and backends on this host. Needs no database connection.

    What a process title does not say for certain is shown as ?, such as a name with spaces.
    """

    examples = (
        "sudo pgtrace list",
        "sudo pgtrace list --json",
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the options."""
        parser.add_argument("--json", action="store_true", help="print JSON")

    def run(self, args: argparse.Namespace) -> int:
        """Print every server, or raise TargetError when there is none."""
        servers = discovery.servers()
        family = proc.by_parent()
        found = [(server, server.backends(family)) for server in servers]
        hidden = discovery.hidden()
        if hidden and not found:
            raise PermissionDeniedError(hidden)
        if args.json:
            import json

            print(json.dumps({"servers": [as_json(*each) for each in found]}, indent=2))
        elif found:
            print("\n\n".join("\n".join(table(*each)) for each in found))
        if hidden:
            print(f"pgtrace: not listed: {hidden}", file=sys.stderr)
        if not found:
            raise TargetError("No PostgreSQL server runs on this host, or none in its namespaces.")
        return 0


def table(server: Server, backends: list[Backend]) -> list[str]:
    """Draw one server as lines; columns are as wide as their widest cell."""
    head = [f"PostgreSQL {server.version or '?'}"]
    if server.cluster_name:
        head.append(server.cluster_name)
    if server.port is not None:
        head.append(f"port {server.port}")
    head.append(server.data_directory)
    rows = [_HEADINGS, *(_row(backend) for backend in backends)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEADINGS) - 1)]
    lines = [escape("  ".join(head))]
    for pid, *cells, activity in rows:
        padded = [cell.ljust(width) for cell, width in zip(cells, widths[1:], strict=True)]
        lines.append("  ".join([pid.rjust(widths[0]), *padded, activity]).rstrip())
    return lines


def as_json(server: Server, backends: list[Backend]) -> dict[str, Any]:
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
            }
            for backend in backends
        ],
    }


def _row(backend: Backend) -> tuple[str, ...]:
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


COMMAND = ListCommand()
