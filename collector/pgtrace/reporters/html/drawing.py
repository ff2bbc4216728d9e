"""Sections of a report on a page."""

from collections.abc import Mapping, Sequence

from ..document import Block, Latencies, Lines, Paragraph, Part, Percentiles, Section, Table
from .charts import Charts
from .parts import Row, escaped, paragraphs, part, section, table

_UNKNOWN = "not measured"


def drawn(
    sections: Sequence[Section], charts: Charts, links: Mapping[str, str] | None = None
) -> str:
    """Return them one after the other. `links` are anchors on this page, by what rows are called:
    there is more of them.
    """
    return "\n".join(_section(each, charts, links or {}) for each in sections)


def _section(each: Section, charts: Charts, links: Mapping[str, str]) -> str:
    if each.title:
        return section(each.name, each.title, _blocks(each.blocks, charts, links))
    content = _blocks(each.blocks, charts, links, "said")
    return f'<section id="{escaped(each.name)}">\n{content}\n</section>'


def _blocks(
    blocks: Sequence[Block], charts: Charts, links: Mapping[str, str], sentences: str = ""
) -> str:
    """`sentences` is of which kind they are, in page.css."""
    return "\n".join(_block(block, charts, links, sentences) for block in blocks)


def _block(block: Block, charts: Charts, links: Mapping[str, str], sentences: str) -> str:
    drawn = ""  # what is over time has a chart of its own
    match block:
        case Paragraph():
            drawn = paragraphs([block.text], sentences)
        case Table():
            drawn = _table(block, links)
        case Latencies():
            drawn = charts.latencies(
                block.title, block.groups, opened=block.opened, what=block.what
            )
        case Percentiles():
            drawn = charts.percentiles(block.title, block.layers)
        case Lines():
            drawn = charts.lines(block, _table(block.table, links))
        case Part():
            drawn = part(block.title, _blocks(block.blocks, charts, links), opened=block.opened)
    return drawn


def _table(of: Table, links: Mapping[str, str]) -> str:
    heads = [(name, [column.title for column in own]) for name, own in of.groups()]
    rows = [
        # The heading of other rows has no values
        Row(
            name,
            [c.show(v, _UNKNOWN) for c, v in zip(of.columns, values, strict=bool(values))],
            link=links.get(name, ""),
        )
        for name, values in of.rows
    ]
    words = [column.title for column in of.columns if column.unit == "words"]
    return table(of.caption, of.first, heads, rows, long=not of.named, words=words)
