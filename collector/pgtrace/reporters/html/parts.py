"""Pieces of an HTML page. Whatever text comes in is escaped here, and nowhere else."""

import html
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

from ...terminal_text import escape, with_units_kept

_NOTHING = frozenset({"0", "0 %", "0 ns", "-"})


@dataclass(frozen=True, slots=True)
class Item:
    """Of a cell that has several: what is told, and the anchor that it leads to, if any."""

    told: str
    link: str = ""


@dataclass(slots=True)
class Row:
    """One row of a table: what it is, and its cells as they are shown."""

    name: str
    cells: list[str | list[Item]] = field(default_factory=list)
    anchor: str = ""
    """By which links lead to it: anchor() of something."""
    link: str = ""
    """Where its name leads: an anchor on this page. To itself, if it has one and this is ""."""


def text(value: str) -> str:
    """Without control characters and marks of direction: a capture's text may be hostile."""
    return escape(value)


def escaped(value: str) -> str:
    """Fit for an element and for an attribute in quotes."""
    return html.escape(text(value))


def paragraphs(sentences: Sequence[str], kind: str = "") -> str:
    """One element for each."""
    of = f' class="{kind}"' if kind else ""
    kept = (with_units_kept(escaped(sentence), "&nbsp;") for sentence in sentences)
    return "\n".join(f"<p{of}>{sentence}</p>" for sentence in kept)


def sums(numbers: Sequence[tuple[str, str]]) -> str:
    """What is to be seen first, large."""
    items = (f"<div><dt>{escaped(k)}</dt><dd>{escaped(v)}</dd></div>" for k, v in numbers)
    return f'<dl class="sums">{"".join(items)}</dl>'


def table(
    caption: str,
    first: str,
    heads: Sequence[tuple[str, Sequence[str]]],
    rows: Sequence[Row],
    *,
    long: bool = False,
    words: Sequence[str] = (),
) -> str:
    """Return a table with `heads` as groups of columns; "" is a group without a name.

    `long` lets what rows are called be of several lines; columns named in `words` hold sentences.
    """
    names = [name for _, group in heads for name in group]
    kinds = ["words" if name in words else "" for name in names]
    groups = ""
    if any(name for name, _ in heads):
        cells = (
            f'<th colspan="{len(group)}" scope="colgroup">{escaped(name)}</th>'
            if name
            else f'<td colspan="{len(group)}"></td>'
            for name, group in heads
        )
        groups = f"<tr><td></td>{''.join(cells)}</tr>"
    head = "".join(
        f'<th scope="col"{_kind(kind)}>{escaped(name)}</th>'
        for name, kind in zip(names, kinds, strict=True)
    )
    lines = "\n".join(_row(row, kinds, long) for row in rows)
    return (
        f'<div class="wide" tabindex="0" role="group" aria-label="{escaped(caption)}"><table>'
        f'<caption>{escaped(caption)}</caption><thead>{groups}<tr><th scope="col">'
        f"{escaped(first)}</th>{head}</tr></thead>\n<tbody>\n{lines}\n</tbody></table></div>"
    )


def _row(row: Row, kinds: Sequence[str], long: bool) -> str:
    if not row.cells:
        name = f"<b>{escaped(row.name)}</b>"
        return f'<tr><th scope="rowgroup" colspan="{len(kinds) + 1}">{name}</th></tr>'
    cells = "".join(_cell(cell, kind) for cell, kind in zip(row.cells, kinds, strict=True))
    name, link = escaped(row.name), row.link or row.anchor
    if link:
        name = f'<a href="#{escaped(link)}">{name}</a>'
    place = f' id="{escaped(row.anchor)}"' if row.anchor else ""
    return f'<tr{place}><th scope="row"{_kind("long" if long else "")}>{name}</th>{cells}</tr>'


def _cell(cell: str | list[Item], kind: str) -> str:
    if isinstance(cell, str):
        return f"<td{_kind(kind or ('zero' if cell in _NOTHING else ''))}>{escaped(cell)}</td>"
    items = "".join(f"<li>{_item(item)}</li>" for item in cell)
    return f"<td{_kind(kind)}><ul>{items}</ul></td>"


def _item(item: Item) -> str:
    told = escaped(item.told)
    return f'<a href="#{escaped(item.link)}">{told}</a>' if item.link else told


def _kind(name: str) -> str:
    return f' class="{name}"' if name else ""


def figure(number: int, kind: str, title: str, content: str, opened: bool) -> str:
    """A place for page.js to draw in, and the table that stands for the drawing without it."""
    return (
        f'<figure id="chart-{number}" data-chart="{number}" data-kind="{kind}">'
        f"<figcaption>{escaped(title)}</figcaption>\n"
        f"<details{' open' if opened else ''}><summary>The numbers of this chart"
        f'<span class="unseen">: {escaped(title)}</span></summary>\n'
        f"{content}</details></figure>"
    )


def anchor(kind: str, name: str) -> str:
    """What stands in a link, and in the place that it leads to: of the same name the same, in every
    page, so that a link may be passed on."""
    return f"{kind}-{quote(text(name), safe='')}"


def unique(anchors: Iterable[str]) -> Iterator[str]:
    """Each only once: to what comes again under a name, as a pid does, its number is added."""
    seen: Counter[str] = Counter()
    for each in anchors:
        seen[each] += 1
        yield each if seen[each] == 1 else f"{each}-{seen[each]}"


def part(
    summary: str, content: str, *, small: str = "", opened: bool = False, anchor: str = ""
) -> str:
    """Something to open and close, as a backend or a statement."""
    place = f' id="{escaped(anchor)}"' if anchor else ""
    more = f" <small>{escaped(small)}</small>" if small else ""
    return (
        f'<details class="part"{place}{" open" if opened else ""}>'
        f"<summary><code>{escaped(summary)}</code>{more}</summary>\n{content}\n</details>"
    )


def section(name: str, title: str, content: str) -> str:
    """A chapter, with an anchor; "" of no content."""
    if not content:
        return ""
    return f'<section id="{name}">\n<h2>{escaped(title)}</h2>\n{content}\n</section>'
