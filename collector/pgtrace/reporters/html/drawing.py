"""Sections of a report on a page."""

from collections.abc import Sequence

from ..document import Block, Over, Paragraph, Section
from .parts import Row, escaped, paragraphs, table

_UNKNOWN = "not measured"


def drawn(sections: Sequence[Section]) -> str:
    """Return them one after the other."""
    return "\n".join(map(_section, sections))


def _section(each: Section) -> str:
    content = "\n".join(map(_block, each.blocks))
    return f'<section id="{escaped(each.name)}">\n{content}\n</section>'


def _block(block: Block) -> str:
    if isinstance(block, Paragraph):
        return paragraphs([block.text], "said")
    if isinstance(block, Over):
        return ""
    heads = [("", [column.title for column in block.columns])]
    rows = [
        Row(name, [c.show(value, _UNKNOWN) for c, value in zip(block.columns, values, strict=True)])
        for name, values in block.rows
    ]
    return table(block.caption, block.first, heads, rows, long=True)
