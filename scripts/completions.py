"""What the Tab key offers after `pgtrace`, as docs/completions has it for each shell.

Drawn from the command line itself by shtab; PGTRACE_UPDATE_DOCS=1 pytest
tests/unit/test_completions.py writes it.
"""

import argparse
from pathlib import Path
from typing import Any

import shtab

from pgtrace.__main__ import _Parser, _parser
from pgtrace.commands import TABLE, Group, load

FILES = {"bash": "pgtrace", "zsh": "_pgtrace", "fish": "pgtrace.fish"}
"""By shell, what it is called where shells look for it."""
FOLDER = Path(__file__).parent.parent / "docs" / "completions"

_PIDS: dict[Any, str] = {
    "bash": "_pgtrace_pids",
    "zsh": "_pgtrace_pids",
    "fish": "(__pgtrace_pids)",
}
_PREAMBLE: dict[Any, str] = {
    "bash": '_pgtrace_pids() { compgen -W "$(pgrep -x postgres)" -- "$1"; }',
    "zsh": '_pgtrace_pids() { compadd -- ${(f)"$(pgrep -x postgres)"}; }',
    "fish": "function __pgtrace_pids; pgrep -x postgres; end",
}
_COMPLETED = {
    "PID": _PIDS,
    "DIR": shtab.DIRECTORY,
    "DIR|PORT": shtab.DIRECTORY,
    "FILE": shtab.FILE,
    "OUT": shtab.FILE,
}
"""By what --help calls an argument."""


def drawn(shell: str) -> str:
    """The completions for one of FILES."""
    top = _Parser(prog="pgtrace")
    commands = top.add_subparsers(parser_class=argparse.ArgumentParser)
    for name, (_, about) in TABLE.items():
        found = load(name)
        if isinstance(found, Group):
            group = commands.add_parser(name, help=about, add_help=False, parents=[_Parser()])
            parts = group.add_subparsers()
            for part, (_, of_it) in found.subcommands.items():
                _add(parts, part, of_it, found.load(part))
        else:
            _add(commands, name, about, found)
    return shtab.complete(top, shell, preamble=_PREAMBLE)


def _add(parsers: Any, name: str, about: str, command: Any) -> None:
    whole = _parser(command, name)
    command.prepare_parser(whole)
    for action in whole._actions:
        if isinstance(action.metavar, str) and action.metavar in _COMPLETED:
            action.complete = _COMPLETED[action.metavar]
    parsers.add_parser(name, help=about, add_help=False, parents=[whole])
