"""pgtrace doctor: what this host can trace, what it cannot, and the command that mends it."""

import argparse
import contextlib
import os
import shutil
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import asdict
from typing import get_args

from .. import doctor
from ..doctor import Ability, Group
from ..doctor.verdict import verdict
from ..errors import PgtraceError
from ..terminal_text import escape
from . import tracing_options

_SIGNS = {True: "ok", False: "no", None: "- "}


class DoctorCommand:
    """Say what can be traced here, what cannot, why, and the command that mends it.

    Probes are really loaded and attached for a moment, to pgtrace itself. Exit code: 0 when
    reads can be traced, 4 when you are not permitted to, 5 when this host cannot.
    """

    examples = (
        "sudo pgtrace doctor",
        "sudo pgtrace doctor --pid 4711 --measure",
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the options."""
        parser.add_argument(
            "-p",
            "--pid",
            type=tracing_options.pid,
            metavar="PID",
            help="look at this process's server alone",
        )
        parser.add_argument(
            "--measure",
            action="store_true",
            help="measure what tracing costs here; takes some seconds",
        )
        parser.add_argument("--json", action="store_true", help="print JSON")

    def run(self, args: argparse.Namespace) -> int:
        """Examine host and servers, and print what was found."""
        if args.verbose:
            from ..engines.bcc import kernel_types
            from ..libbpf import objects

            objects.print_messages()
            kernel_types.verbose = True
        servers = _server_groups(args.pid)
        found = [*doctor.groups(_try_engines), *_cost(args.measure), *servers]
        code = doctor.exit_code(found)
        with contextlib.suppress(BrokenPipeError):  # the code is for who does not read on, too
            _print(found, code, as_json=args.json)
        return code


def _print(found: list[Group], code: int, *, as_json: bool) -> None:
    said = verdict(found)
    if as_json:
        import json

        groups = [asdict(group) for group in found]
        document = {"exit_code": code, "verdict": said, "groups": groups}
        print(json.dumps(document, indent=2))
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    print(*folded(escape(said), width), sep="\n")
    for group in found:
        print("", *lines(group, width), sep="\n")


def lines(group: Group, width: int | None) -> Iterator[str]:
    """Draw a group; long reasons are folded at `width` columns, commands never."""
    yield escape(group.name)
    for ability in group.abilities:
        line = f"  {_SIGNS[ability.ok]}  {escape(ability.name)}: {escape(ability.reason)}"
        yield from folded(line, width, " " * 6)
        if ability.remedy and ability.ok is False:  # nobody types what changes nothing
            yield f"      → {escape(ability.remedy)}"


def folded(line: str, width: int | None, indent: str = "") -> list[str]:
    """A line as lines of at most `width` columns; None: as it is."""
    if width is None:
        return [line]
    return textwrap.wrap(line, max(width, 40), subsequent_indent=indent, break_on_hyphens=False)


def _server_groups(pid: int | None) -> list[Group]:
    from ..doctor.server import group
    from ..postgres import discovery
    from ..postgres.hidden_servers import hidden_servers

    if pid is not None:
        return [group(discovery.server(pid))]
    examined = [(server, group(server)) for server in discovery.servers()]
    # Of one that stopped meanwhile everything would be missing
    found = [each for server, each in examined if server.runs()]
    hidden = hidden_servers()
    if hidden:
        found.append(Group("Servers", [Ability("servers", None, hidden)]))
    elif not found:
        found.append(Group("Servers", [Ability("servers", None, "none runs on this host")]))
    return found


def _cost(measure: bool) -> list[Group]:
    if not measure:
        return []
    from ..doctor import cost

    return [cost.group(_attached)]


@contextlib.contextmanager
def _attached(pid: int) -> Iterator[str]:
    """By the engine and the probe type that are taken where nobody asks."""
    from ..engines import Member, Request, select

    engine = select.start(Request(members=(Member(pid, pid),), only=pid))
    try:
        yield engine.probe_type
    finally:
        engine.close(wait=True)


def _try_engines() -> doctor.EnginesTried:
    from ..engines import EngineName
    from ..engines.select import probe_types

    tried: doctor.EnginesTried = {}
    for name in get_args(EngineName):
        try:
            ways = probe_types(os.getpid(), name)
            tried[name] = {str(way): reason for way, reason in ways.items()}
        except PgtraceError as error:
            tried[name] = str(error)
    return tried


COMMAND = DoctorCommand()
