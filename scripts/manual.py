"""The manual page, as docs/man/pgtrace.1 has it: commands and options from the command line itself,
the rest from the pages of the documentation.

PGTRACE_UPDATE_DOCS=1 pytest tests/unit/test_docs.py writes it.
"""

import argparse
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from pgtrace import __version__
from pgtrace.__main__ import _Parser, _parser
from pgtrace.commands import TABLE, Command, Group, load

ROOT = Path(__file__).parent.parent
FILE = ROOT / "docs" / "man" / "pgtrace.1"
_GUIDE = ROOT / "docs" / "guide" / "README.md"
_SECTIONS = {
    "Where a read was served": "WHERE A READ WAS SERVED",
    "What is the same for every command": "WHAT IS THE SAME FOR EVERY COMMAND",
    "Where files go": "WHERE FILES GO",
    "Exit codes": "EXIT STATUS",
}
"""Of the guide, and what they are called here."""
_NAME = "every read a PostgreSQL query caused, and where it was served"


def drawn() -> str:
    """The page."""
    lines = [
        f'.TH PGTRACE 1 "" "pgtrace {__version__}" "User Commands"',
        ".SH NAME", rf"pgtrace \- {_roff(_NAME)}",
        ".SH SYNOPSIS", *_synopsis(),
        ".SH DESCRIPTION", *_markdown(_introduction()),
        ".SH COMMANDS", *chain.from_iterable(_command(*each) for each in _commands()),
    ]  # fmt: skip
    for title, name in _SECTIONS.items():
        lines += [f".SH {name}", *_markdown(_section(title))]
    lines += [".SH SEE ALSO", ".BR bpftrace (8),", r".BR perf\-trace (1)"]
    return "\n".join(lines) + "\n"


def _commands() -> Iterator[tuple[str, Command | Group]]:
    for name in TABLE:
        found = load(name)
        yield name, found
        if isinstance(found, Group):
            for part in found.subcommands:
                yield f"{name} {part}", found.load(part)


def _synopsis() -> Iterator[str]:
    for name, found in _commands():
        if isinstance(found, Group):
            continue
        yield rf".B pgtrace {_roff(name)}"
        yield ".RI [ options ]"
        parser = _parser(found, name)
        found.prepare_parser(parser)
        for action in parser._actions:
            if not action.option_strings:
                shown = _roff(str(action.metavar or action.dest))
                yield rf".RI [ {shown} ]" if action.nargs == "?" else rf".I {shown}"
        yield ".br"


def _command(name: str, found: Command | Group) -> Iterator[str]:
    parser = _parser(found, f"pgtrace {name}")
    yield rf".SS {_roff(name)}"
    for number, paragraph in enumerate((parser.description or "").split("\n\n")):
        yield from [".PP"] * bool(number)
        yield _roff(" ".join(paragraph.split()))
    if not isinstance(found, Group):
        found.prepare_parser(parser)
        usual = {action.dest for action in _Parser()._actions}
        for group in parser._action_groups:
            own = [each for each in group._group_actions if each.dest not in usual]
            for action in own:
                if action.help != argparse.SUPPRESS:
                    yield from _option(action)
    if found.examples:
        yield from [".PP", ".RS", ".EX", *map(_roff, found.examples), ".EE", ".RE"]


def _option(action: argparse.Action) -> Iterator[str]:
    names = ", ".join(rf"\fB{_roff(name)}\fR" for name in action.option_strings)
    metavar = action.metavar or (action.choices and f"{{{','.join(map(str, action.choices))}}}")
    value = "" if action.nargs == 0 else str(metavar or action.dest.upper())
    yield ".TP"
    yield f"{names} \\fI{_roff(value)}\\fR".strip() if value else names
    yield _sentence(_roff(str(action.help or "")))


def _sentence(words: str) -> str:
    """As it stands in a list of options."""
    return f"{words[:1].upper()}{words[1:]}{'' if words.endswith('.') else '.'}"


def _introduction() -> str:
    """The first paragraph of the README."""
    return (ROOT / "README.md").read_text().split("\n\n")[1]


def _section(title: str) -> str:
    text = _GUIDE.read_text().partition(f"\n## {title}\n")[2]
    return text.partition("\n## ")[0].partition("\n<!--")[0].strip()


def _markdown(text: str) -> Iterator[str]:
    """Paragraphs, lists, and tables of two columns."""
    for number, block in enumerate(re.split(r"\n\n+", text)):
        if block.startswith("|"):
            for row in block.splitlines()[2:]:
                name, told = (cell.strip() for cell in row.strip("|").split("|", 1))
                yield from [".TP", rf".B {_inline(name)}", _inline(told)]
        elif block.startswith("- "):
            for item in re.split(r"\n(?=- )", block):
                yield from [".IP • 2", _inline(" ".join(item[2:].split()))]
        else:
            yield from [".PP"] * bool(number)
            yield _inline(" ".join(block.split()))


def _inline(text: str) -> str:
    text = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", text)
    parts = re.split(r"(`[^`]+`|\*\*[^*]+\*\*)", text)
    return "".join(
        rf"\fB{_roff(part.strip('`*'))}\fR" if part[:1] == "`" or part[:2] == "**" else _roff(part)
        for part in parts
    )


def _roff(text: str) -> str:
    escaped = text.replace("\\", r"\e").replace("-", r"\-").replace("%%", "%")
    return rf"\&{escaped}" if escaped[:1] in {".", "'"} else escaped


if __name__ == "__main__":
    print(drawn(), end="")
