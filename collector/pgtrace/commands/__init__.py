"""The subcommands, one module each. None is imported before it is chosen: start-up is promised."""

import argparse
from typing import Protocol

from ..errors import UsageError


class Command(Protocol):
    """A subcommand; its docstring is the help. Each module here has one, named COMMAND."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's own options; -v, -q and --version are there."""

    def run(self, args: argparse.Namespace) -> int:
        """Do it and return the exit code, or raise PgtraceError."""


TABLE = {
    "doctor": ("doctor", "what this host can trace, what it cannot, and what mends it"),
    "list": ("list_", "PostgreSQL servers and backends on this host"),
    "attach": ("attach", "one backend, live: each query with its reads"),
    "capture": ("capture", "trace for a while; print a report, or write a file"),
    "report": ("report", "a captured file as text, JSON or HdrHistogram log"),
    "lab": ("lab", "repeat a published experiment on a server of its own"),
}
"""By name: module and one line of help."""


def load(name: str) -> Command:
    """Import the command called `name`; UsageError if there is none."""
    if name not in TABLE:
        from difflib import get_close_matches

        near = get_close_matches(name, TABLE, 1)
        meant = f"did you mean `pgtrace {near[0]}`?" if near else "`pgtrace --help` lists them"
        raise UsageError(f"there is no command {name!r}; {meant}")
    from importlib import import_module

    command: Command = import_module(f".{TABLE[name][0]}", __name__).COMMAND
    return command
