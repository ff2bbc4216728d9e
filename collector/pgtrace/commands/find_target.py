"""Which processes and servers the command line means."""

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .. import sudo
from ..errors import PermissionDeniedError, TargetError, UsageError
from ..terminal_text import escape
from .notes import note

if TYPE_CHECKING:
    from ..postgres.discovery import Backend, Server
    from ..tracing.targets import Filters, Target

_MOST_NAMES = 10
"""So many databases or users are told, where none is as asked."""


def find_one(args: argparse.Namespace) -> "Target":
    """The one backend that is meant."""
    pids = _pids(args)
    if len(pids) != 1:
        what = "different pids were given." if pids else "which process?"
        raise UsageError(f"{what} Give one pid; `{sudo.as_root('list')}` shows them")
    target = _of_pids(args, pids)
    if target.whole:
        raise TargetError(
            f"process {pids[0]} is a postmaster, which runs no queries; "
            f"give the pid of one of its backends: `{sudo.as_root('list')}` shows them. "
            f"`{sudo.as_root('capture', str(pids[0]))}` traces the whole server"
        )
    return target


def find_any(args: argparse.Namespace) -> "Target":
    """Backends, or servers; nothing at all means the only server on this host."""
    from ..postgres import discovery
    from ..postgres.hidden_servers import hidden_servers, no_server
    from ..tracing.targets import MOST_SERVERS, Filters, Target

    pids = _pids(args)
    if sum(map(bool, (pids, args.server, args.all))) > 1:
        raise UsageError("give pids, or --server, or --all: only one of them")
    filters = Filters(
        frozenset(args.datname or ()),
        frozenset(args.usename or ()),
        frozenset(args.backend_type or ()),
    )
    if pids:
        target = _of_pids(args, pids, filters)
    else:
        servers = discovery.servers()
        if args.server:
            servers = _named(servers, args.server)
        hidden = None if servers and args.server else hidden_servers()
        if not servers:
            which = f"no server {args.server}" if args.server else "no PostgreSQL server"
            if hidden:
                raise PermissionDeniedError(f"{which} that you may look into: {hidden}")
            shows = f"`{sudo.as_root('list')}` shows what is"
            raise TargetError(f"{which} is running here; {shows}" if args.server else no_server())
        if hidden:
            note(args, f"Not traced: {hidden}")
        if len(servers) > 1 and not args.all:
            names = (escape(_how_to_name(server, servers)) for server in servers)
            listed = "".join(f"\n  {name}" for name in names)
            raise UsageError(f"several servers are running: name one, or --all{listed}")
        if len(servers) > MOST_SERVERS:
            # Whoever starts more, later, does not take the place of those that were there
            servers.sort(key=lambda server: server.postmaster.start_time_ticks)
            left = ", ".join(str(server.postmaster_pid) for server in servers[MOST_SERVERS:])
            note(args, f"Not traced: more than {MOST_SERVERS} servers: postmasters {left}")
        target = Target.of_servers(servers[:MOST_SERVERS], filters)
    _check_filters(args, target)
    return target


def _of_pids(
    args: argparse.Namespace, pids: list[int], filters: "Filters | None" = None
) -> "Target":
    """Of a parallel worker its leader, with a word."""
    from ..postgres import discovery
    from ..tracing.targets import Target

    meant = []
    for pid in pids:
        leader = discovery.backend(pid).leader_pid if args.charge else None
        if leader:
            note(args, f"Process {pid} is a parallel worker of {leader}: tracing its leader.")
        meant.append(leader or pid)
    return Target.of_pids(meant, filters)


def _check_filters(args: argparse.Namespace, target: "Target") -> None:
    """Raise TargetError if no process of now passes; say so only, with --wait."""
    if target.filters.is_empty:
        if args.wait:
            raise UsageError(
                "--wait waits for a backend of --datname, --usename or --backend-type: give one"
            )
        return
    family = target.family()
    meant = family if target.whole else target.backends
    if any(target.filters.allow(b.datname, b.usename, b.backend_type) for b in meant):
        return
    message = _none_passes(target.filters, meant)
    if not args.wait:
        shows = f"`{sudo.as_root('list')}` shows them"
        raise TargetError(f"{message}; {shows}, --wait waits for one")
    note(args, f"{message[0].upper()}{message[1:]}; waiting for one.")


def _none_passes(filters: "Filters", meant: Sequence["Backend"]) -> str:
    """Which filter it is that nobody passes, and what would; if each passes one, that it is all."""
    each = (
        ("--datname", filters.datnames, {b.datname for b in meant}),
        ("--usename", filters.usenames, {b.usename for b in meant}),
        ("--backend-type", filters.backend_types, {b.backend_type for b in meant}),
    )
    for option, wanted, found in each:
        if wanted and not wanted & found:
            there = sorted(escape(name) for name in found if name)
            more = f", and {len(there) - _MOST_NAMES} more" if len(there) > _MOST_NAMES else ""
            what = f"there are {', '.join(there[:_MOST_NAMES])}{more}" if there else "none has one"
            return f"no backend passes {option} {escape(', '.join(sorted(wanted)))} now: {what}"
    asked = [option for option, wanted, _ in each if wanted]
    return f"no backend passes {' and '.join(asked)} at once now"


def _how_to_name(server: "Server", servers: Sequence["Server"]) -> str:
    """By its directory, unless that is the name of another's too, as in containers."""
    if [each.data_directory for each in servers].count(server.data_directory) > 1:
        return f"-p {server.postmaster_pid}"
    return f"--server {shlex.quote(server.data_directory)}"


def _named(servers: Sequence["Server"], name: str) -> list["Server"]:
    """By its port or its directory. That directory itself comes before what only has its name, as
    in a container, or in whatever mount namespace somebody makes.
    """
    if name.isascii() and name.isdecimal():
        return [each for each in servers if str(each.port) == (name.lstrip("0") or "0")]
    asked = Path(name)
    same = [each for each in servers if _is_same(asked, each)]
    return same or [each for each in servers if each.data_directory == str(asked.absolute())]


def _is_same(asked: Path, server: "Server") -> bool:
    try:
        return asked.samefile(server.directory)
    except OSError:
        return False


def _pids(args: argparse.Namespace) -> list[int]:
    return list(dict.fromkeys([*([args.target] if args.target else []), *(args.pid or [])]))
