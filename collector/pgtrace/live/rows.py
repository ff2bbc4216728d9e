"""A list as lines of a screen: the rows that there is room for, columns as wide as they need."""

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

from ..reporters.document import Column
from ..terminal_text import ELLIPSIS, escape
from .tabs import KINDS, Listing, cell
from .view import Order

_GAP = 2


class Drawn(NamedTuple):
    """Lines, each as wide as the screen."""

    head: str
    columns: Sequence[tuple[int, str]]
    """Where each ends, and its title."""
    lines: Sequence[str]


def drawn(listing: Listing, order: Order, top: int, rows: int, width: int) -> Drawn:
    """The rows from `top` on, so many that `rows` lines are full."""
    part = Listing(
        listing.kind, listing.first, listing.columns, listing.rows[top : top + rows], listing.empty
    )
    fitting = part.fitting(width, order.title)
    cells = [
        [cell(column, value) for column, value in zip(fitting.columns, row.values, strict=True)]
        for row in fitting.rows
    ]
    titles = [_title(column.title, order) for column in fitting.columns]
    widths = [max(map(cell_len, column)) for column in zip(titles, *cells, strict=True)]
    lines = [
        _line(values, escape(row.name), fitting.columns, widths, width)
        for row, values in zip(fitting.rows, cells, strict=True)
    ]
    ends, at = [], 0
    for column, size in zip(fitting.columns, widths, strict=True):
        at += size + _GAP
        ends.append((at, column.title))
    head = _line(titles, fitting.first, fitting.columns, widths, width)
    return Drawn(head, ends, lines or [_line([], _nothing(listing), [], [], width)])


def _nothing(listing: Listing) -> str:
    return f"{KINDS[listing.kind]}: {listing.empty}"


def _title(title: str, order: Order) -> str:
    if title != order.title:
        return title
    return f"{'▼' if order.most_first else '▲'}{title}"


def _line(
    values: Sequence[str],
    name: str,
    columns: Sequence[Column],
    widths: Sequence[int],
    width: int,
) -> str:
    """Numbers to the right, texts to the left; last what the row is of, cut where the line ends."""
    cells = [
        f"{value}{' ' * (size - cell_len(value))}"
        if column.unit == "text" and column.title != "pid"
        else f"{' ' * (size - cell_len(value))}{value}"
        for value, column, size in zip(values, columns, widths, strict=True)
    ]
    return fitted((" " * _GAP).join([*cells, name]), width)


def fitted(line: str, width: int) -> str:
    """Exactly as wide: a screen has no line that is longer, and what was there is gone."""
    if cell_len(line) <= width:
        return set_cell_size(line, width)
    return set_cell_size(set_cell_size(line, max(width - 1, 0)) + ELLIPSIS, width)
