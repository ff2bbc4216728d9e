"""The subcommands, one module each. None is imported before it is chosen: start-up is promised."""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from ..errors import UsageError


class Command(Protocol):
    """A subcommand; its docstring is the help. Each module here has one, named COMMAND."""

    examples: Sequence[str]
    """Lines to type, which stand below the options."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's own options; -v, -q and --version are there."""

    def run(self, args: argparse.Namespace) -> int:
        """Do it and return the exit code, or raise PgtraceError."""


@runtime_checkable
class Group(Protocol):
    """A subcommand that has subcommands, and does nothing itself; its docstring is the help."""

    examples: Sequence[str]
    subcommands: Mapping[str, tuple[str, str]]

    def load(self, name: str) -> Command:
        """Import one; UsageError if there is none of that name."""


TABLE = {
    "doctor": ("doctor", "what this host can trace, what it cannot, and what mends it"),
    "list": ("list_", "PostgreSQL servers and backends on this host"),
    "attach": ("attach", "one backend, live: each query with its reads"),
    "top": ("top", "a whole server, live: who reads, for what, and from where"),
    "capture": ("capture", "trace for a while; print a report, or write a file"),
    "report": ("report", "a capture or lab result, as text, HTML, JSON, CSV, folded stacks, …"),
    "compare": ("compare", "two captures, or two parts of one: what differs, and how certain"),
    "lab": ("lab", "repeat a published experiment on a server of its own"),
}
"""By name: module and one line of help."""


def load(name: str) -> Command | Group:
    """Import the command called `name`; UsageError if there is none."""
    found: Command | Group = imported(__name__, "command", name, TABLE, "pgtrace")
    return found


def imported(
    package: str, what: str, name: str, table: Mapping[str, tuple[str, str]], of: str
) -> Any:
    """Import one of a table; UsageError if it is not there, with the one that was meant."""
    if name not in table:
        from difflib import get_close_matches

        near = get_close_matches(name, table, 1)
        meant = f"did you mean `{of} {near[0]}`?" if near else f"`{of} --help` lists them"
        raise UsageError(f"there is no {what} {name!r}; {meant}")
    from importlib import import_module

    found: Any = import_module(f".{table[name][0]}", package).COMMAND
    return found
