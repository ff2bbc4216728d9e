"""Sections of a report as text: sentences are folded, tables fit the terminal."""

import io
import math
from collections.abc import Sequence
from statistics import median

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from ...terminal_text import escape, folded, kept_together
from ..document import Column, Over, Paragraph, Section, Table

_UNKNOWN = "?"
_GAP = 2
_LEAST_S = 0.001
_SHIFTED = 0.2
"""Of a character, so much is none: pieces are never exactly as long as each other."""
_LEVELS = "·▁▂▃▄▅▆▇█"
_NAME = 16
"""Columns of what a row is of, at least: then lines are longer than the terminal is wide."""
_NAME_BESIDE_DETAILS = 40
"""So many are left for it, or details are left out."""


def lines(
    sections: Sequence[Section], width: int, *, whole: bool = False, dense: bool = False
) -> list[str]:
    """Return them, an empty line before each but the first, unless they are to be dense.

    What rows are of is cut where the terminal ends; `whole` folds it.
    """
    found: list[str] = []
    for number, section in enumerate(sections):
        found += [""] * bool(number and not dense)
        for block in section.blocks:
            if isinstance(block, Paragraph):
                found += folded(_printed(Text(kept_together(escape(block.text))), width))
            elif isinstance(block, Over):
                found += _strip(block, width)
            elif isinstance(block, Table):
                found += _table(block, width, whole=whole)
    return found


def _printed(what: Text | RichTable, width: int) -> list[str]:
    file = io.StringIO()
    console = Console(
        file=file, width=width, color_system=None, force_terminal=False, highlight=False,
        markup=False, emoji=False, legacy_windows=False,
    )  # fmt: skip
    console.print(what)
    return [line.rstrip() for line in file.getvalue().splitlines()]


def _strip(over: Over, width: int) -> list[str]:
    """A character for each second or more, as high as the highest value in it."""
    room = max(width - len(over.began) - len(over.ended) - 2, _NAME)
    usual = median(length for _, length, _ in over.pieces)
    step = max(over.duration_s / room, usual, _LEAST_S)
    levels = [0.0] * max(1, round(over.duration_s / step))
    for second, length, value in over.pieces:
        first = min(int(second / step + _SHIFTED), len(levels) - 1)
        behind = math.ceil((second + length) / step - _SHIFTED)
        for at in range(first, min(max(behind, first + 1), len(levels))):
            levels[at] = max(levels[at], value)
    most = max(levels)
    strip = "".join(_LEVELS[math.ceil(value / most * (len(_LEVELS) - 1))] for value in levels)
    highest = Column("", over.unit).show(most, _UNKNOWN)
    return [f"{over.caption} ({_LEVELS[-1]}: {highest})", f"{over.began} {strip} {over.ended}"]


def _table(table: Table, width: int, *, whole: bool) -> list[str]:
    """Numbers first; what a row is of stands last."""
    rows = [
        [escape(column.show(v, _UNKNOWN)) for column, v in zip(table.columns, values, strict=True)]
        for _, values in table.rows
    ]
    widths = [
        max(len(cell) for cell in (column.title, *(row[number] for row in rows)))
        for number, column in enumerate(table.columns)
    ]
    shown = [*range(len(widths))]
    if width - _used(widths) < _NAME_BESIDE_DETAILS:
        shown = [number for number in shown if not table.columns[number].detail]
    used = _used([widths[number] for number in shown])
    drawn = RichTable(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    for number in shown:
        title = Text(table.columns[number].title)
        drawn.add_column(title, justify="right", width=widths[number], no_wrap=True)
    left = max(_NAME, width - used)
    drawn.add_column(
        Text(table.first), width=left, no_wrap=not whole, overflow="fold" if whole else "ellipsis"
    )
    for (name, _), row in zip(table.rows, rows, strict=True):
        drawn.add_row(*(Text(row[number]) for number in shown), Text(escape(name)))
    return _printed(drawn, used + left)


def _used(widths: Sequence[int]) -> int:
    return sum(width + _GAP for width in widths)
