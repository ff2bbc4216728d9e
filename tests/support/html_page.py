"""An HTML page read without a browser: its tables, its charts' JSON, what it would load."""

import json
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

from pgtrace.lab import result_page
from pgtrace.model.capture import Capture
from pgtrace.model.lab_result import Result
from pgtrace.reporters.html import capture_page

_VOID = frozenset({"meta", "link", "br", "img", "input", "hr"})


def render(document: Capture | Result) -> str:
    """Its page, as a file."""
    if isinstance(document, Capture):
        return capture_page.render(document)
    return result_page.render(document)


@dataclass
class Table:
    caption: str = ""
    chart: str | None = None
    """The number of the chart whose table it is."""
    head: list[str] = field(default_factory=list)
    rows: dict[str, list[str]] = field(default_factory=dict)
    listed: list[tuple[str, list[str]]] = field(default_factory=list)
    """All rows, also those that have a name in common."""


class HtmlPage(HTMLParser):
    """The page as it is parsed; AssertionError if an element is not closed where it should be."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tables: list[Table] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.scripts: list[str] = []
        self.styles: list[str] = []
        self.text = ""
        self._open: list[tuple[str, dict[str, str | None]]] = []
        self._cell = ""
        self.feed(text)
        self.close()
        assert not self._open, self._open

    @property
    def charts(self) -> list[dict[str, Any]]:
        charts: list[dict[str, Any]] = json.loads(self.scripts[0])
        return charts

    def table_of(self, chart: int) -> Table:
        (found,) = (t for t in self.tables if t.chart == str(chart))
        return found

    def table(self, caption: str) -> Table:
        (found,) = (t for t in self.tables if t.caption == caption)
        return found

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag in _VOID:
            return
        self._open.append((tag, dict(attrs)))
        if tag == "table":
            figures = [of["data-chart"] for name, of in self._open if name == "figure"]
            self.tables.append(Table(chart=figures[-1] if figures else None))
        if tag in ("th", "td", "caption", "script", "style"):
            self._cell = ""

    def handle_data(self, data: str) -> None:
        self._cell += data
        if self._open and self._open[-1][0] not in ("script", "style"):
            self.text += data.replace("\xa0", " ")  # as it is read

    def handle_endtag(self, tag: str) -> None:
        opened, attributes = self._open.pop()
        assert opened == tag, (opened, tag, self.getpos())
        scope = attributes.get("scope")
        if tag == "caption":
            self.tables[-1].caption = self._cell
        elif scope == "col":
            self.tables[-1].head.append(self._cell)
        elif scope in ("row", "rowgroup"):
            self._row = self._cell
            self.tables[-1].rows[self._row] = []
            self.tables[-1].listed.append((self._row, self.tables[-1].rows[self._row]))
        elif tag == "td" and not any(name == "thead" for name, _ in self._open):
            self.tables[-1].rows[self._row].append(self._cell)
        elif tag == "script":
            self.scripts.append(self._cell)
        elif tag == "style":
            self.styles.append(self._cell)
