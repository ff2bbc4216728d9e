"""Text that fits a terminal: sentences, figures side by side, rows that end with a name."""

import textwrap
from collections.abc import Sequence

from ...terminal_text import escape, folded, kept_together

NARROWEST = 40
INDENT = 12
"""Of figures, below what they are of."""
_GAP, _LESS = " " * 3, " " * 2
_BELOW = 4
"""Columns by which a name is indented at least that stands below its numbers."""


def sentence(text: str, width: int, indent: int = 0) -> list[str]:
    """Return it in lines of at most `width` columns, harmless to a terminal.

    The first is indented so far; the others too, or by two where that is nothing.
    """
    return folded(
        textwrap.wrap(
            kept_together(escape(text)),
            max(width, NARROWEST),
            initial_indent=" " * indent,
            subsequent_indent=" " * (indent or 2),
            break_on_hyphens=False,
        )
    )


def wrapped(text: str, width: int) -> list[str]:
    """Return a statement in lines of at most `width` columns, all but the first indented by two."""
    return textwrap.wrap(
        text, max(width, NARROWEST), subsequent_indent="  ", break_on_hyphens=False
    )


def packed(
    parts: Sequence[str], width: int, lead: str = "", *, gap: str = _GAP, indent: int = INDENT
) -> list[str]:
    """Return figures side by side, as many in a line as there is room for, the first behind `lead`.

    None is broken but one that is longer than a line. Where a little less between them makes it
    one line, so it is.
    """
    line = lead or " " * indent
    if len(line) + len(_LESS.join(parts)) <= width < len(line) + len(gap.join(parts)):
        gap = _LESS
    lines = []
    empty = True
    for part in parts:
        if not empty and len(line) + len(gap) + len(part) > width:
            lines.append(line)
            line, empty = " " * indent, True
        line += part if empty else gap + part
        empty = False
    return [each for line in [*lines, line] for each in _broken(line, width, indent)]


def row(numbers: str, name: str, width: int) -> list[str]:
    """Return a row of a table, the name folded at its spaces in the room that numbers leave; one
    of which a word is too long for that stands below, to the right.
    """
    name, at = escape(name), len(numbers) + 2
    if any(len(word) > width - at for word in name.split()):
        below = textwrap.wrap(name, width - _BELOW, break_on_hyphens=False)
        return [numbers, *(f"{each:>{width}}" for each in below)]
    first, *others = textwrap.wrap(name, width - at, break_on_hyphens=False) or [""]
    return [f"{numbers}  {first}".rstrip(), *(" " * at + each for each in others)]


def _broken(line: str, width: int, indent: int) -> list[str]:
    if len(line) <= width:
        return [line]
    within = max(width, NARROWEST)
    return textwrap.wrap(
        line, within, subsequent_indent=" " * indent, drop_whitespace=True, break_on_hyphens=False
    )
