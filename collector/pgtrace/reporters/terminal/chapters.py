"""Sections that have titles as text: tables of figures, histograms side by side, sentences.

What is a detail is left out. Neither tables nor histograms need rich.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

from ... import units
from ...terminal_text import escape
from ..document import Block, Column, Latencies, Paragraph, Part, Section, Table
from .chart import LONGEST_BAR, chart
from .sentence import sentence

_UNKNOWN = "?"
_GAP = 2
_INDENT = 2
_NAME = 16
"""Columns of what a row is of, at least."""
_SHORTEST_BAR = 4
_SHARE = 8


def chapters(sections: Sequence[Section], width: int) -> list[str]:
    """Return them, an empty line before each. No line is longer than `width`, if that is 80."""
    lines: list[str] = []
    for section in sections:
        lines += ["", *sentence(section.title, width), *_blocks(section.blocks, width)]
    return lines


def _blocks(blocks: Sequence[Block], width: int) -> list[str]:
    lines: list[str] = []
    for block in blocks:
        if isinstance(block, Paragraph):
            lines += sentence(block.text, width, _INDENT)
        elif drawn := _drawn(block, width):
            lines += [*([""] if lines else []), *drawn]
    return lines


def _drawn(block: Block, width: int) -> list[str]:
    if isinstance(block, Table):
        return list(_table(block, width))
    if isinstance(block, Latencies) and not block.detail:
        return [*sentence(block.title, width, _INDENT), *_latencies(block, width)]
    if isinstance(block, Part):
        return [*sentence(block.title, width), *_blocks(block.blocks, width)]
    return []


def _table(table: Table, width: int) -> Iterator[str]:
    """Yield it, and below it the groups of columns for which there is no room beside the others."""
    columns = [n for n, c in enumerate(table.columns) if c.unit != "words" and not c.detail]
    words = [n for n, c in enumerate(table.columns) if c.unit == "words" and not c.detail]
    shown = [
        [escape(c.show(v, _UNKNOWN)) for c, v in zip(table.columns, values, strict=bool(values))]
        for _, values in table.rows
    ]
    groups = [
        _Group(table.columns, list(own), shown)
        for _, own in groupby(columns, key=lambda n: table.columns[n].group or n)
    ]
    yield from sentence(table.caption, width, _INDENT) if table.caption else []
    first = escape(table.first)
    names = [escape(name) for name, _ in table.rows]
    longest = max(len(name) for name in [first, *names])
    widest = max((group.width for group in groups), default=0)
    room = min(longest, max(_NAME, width - _INDENT - widest))
    everything = sum(group.width for group in groups)
    if room + everything + _INDENT > width >= _NAME + everything + _INDENT:
        room = width - _INDENT - everything
    rest = groups
    while rest:
        side, rest = _that_fit(rest, width - _INDENT - room)
        if any(group.name for group in side):
            yield _line("", room, [f"{group.name:>{group.width}}" for group in side])
        yield _line(first, room, [group.titles for group in side])
        for name, cells in zip(names, shown, strict=True):
            figures = [group.row(cells) for group in side] if cells else []
            if len(name) <= room:
                yield _line(name, room, figures)
            else:
                yield from sentence(name, width, _INDENT)
                yield from [_line("", room, figures)] * bool(figures)
            for n in words if cells and side[0] is groups[0] else []:
                yield from sentence(cells[n], width, 2 * _INDENT)


class _Group:
    """Columns that stand together."""

    def __init__(
        self, columns: Sequence[Column], own: Sequence[int], shown: Sequence[Sequence[str]]
    ) -> None:
        self.name = escape(columns[own[0]].group)
        self._columns = own
        self._heads = [escape(columns[n].title) for n in own]
        self._wide = [
            _GAP + max(len(head), *(len(cells[n]) for cells in shown if cells), 0)
            for n, head in zip(own, self._heads, strict=True)
        ]
        self._wide[0] += max(0, len(self.name) + _GAP - sum(self._wide))

    @property
    def width(self) -> int:
        return sum(self._wide)

    @property
    def titles(self) -> str:
        return self._aligned(self._heads)

    def row(self, cells: Sequence[str]) -> str:
        return self._aligned([cells[n] for n in self._columns])

    def _aligned(self, cells: Sequence[str]) -> str:
        return "".join(f"{cell:>{wide}}" for cell, wide in zip(cells, self._wide, strict=True))


def _that_fit(groups: Sequence[_Group], room: int) -> tuple[list[_Group], list[_Group]]:
    """Those for which there is room, the first in any case; and the others."""
    taken = 1
    while taken < len(groups) and sum(g.width for g in groups[: taken + 1]) <= room:
        taken += 1
    return list(groups[:taken]), list(groups[taken:])


def _line(name: str, room: int, parts: Sequence[str]) -> str:
    return f"{'':{_INDENT}}{name:<{room}}{''.join(parts)}".rstrip()


def _latencies(of: Latencies, width: int) -> list[str]:
    """All over the same powers of two, no row left out between the first and the last."""
    if len(of.groups) == 1:
        return chart(of.groups[0].all, width, of.what)
    every = [group.all for group in of.groups]
    folded = [{low: (n, ns) for low, _, n, ns in each.fold_time()} for each in every]
    lows = [low for rows in folded for low in rows]
    most = [max((n for n, _ in rows.values()), default=1) for rows in folded]
    digits = max(len(of.what) + 2, *(len(units.count(n)) + 2 for n in most))
    room = (width - 9) // len(every) - digits - 1 - _SHARE
    bar = max(_SHORTEST_BAR, min(LONGEST_BAR, room))
    lines = [
        f"{'':9}"
        + "".join(f"{escape(g.name):>{digits}}{'':{bar + 1 + _SHARE}}" for g in of.groups),
        f"{'from':>9}" + f"{of.what:>{digits}}{'time':>{bar + 1 + _SHARE}}" * len(every),
    ]
    low = min(lows)
    while low <= max(lows):
        line = f"{units.bucket(low):>9}"
        for each, rows, top in zip(every, folded, most, strict=True):
            count, time = rows.get(low, (0, 0))
            share = units.share(time / max(1, each.total_ns))
            line += f"{units.count(count):>{digits}} {'█' * round(count * bar / top):<{bar}}"
            line += f"{share:>{_SHARE}}"
        lines.append(line)
        low = low * 2 or 1
    return [line.rstrip() for line in lines]
