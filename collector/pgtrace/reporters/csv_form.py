"""One table of a capture as comma-separated values, RFC 4180, for spreadsheets and databases."""

import csv
import io
from collections.abc import Iterator

from ..errors import UsageError
from ..model.capture import Capture
from ..terminal_text import escape
from .document import Table, Value
from .sections import top
from .sections.statements import statements
from .sections.sums import reads_of
from .view import Choice, View

_SUFFIXES = {"ns": "_ns", "ns, 2 digits": "_ns"}
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet would run: https://owasp.org/www-community/attacks/CSV_Injection."""


def report(capture: Capture, view: View) -> Iterator[str]:
    """Yield the rows; times are nanoseconds, sizes bytes, shares parts of one, and what was not
    measured is empty.
    """
    whole = Choice(None, view.choice.order)
    if view.part == "relations":
        tables = top.relation_table(reads_of(capture), whole)
    elif view.part == "backends":
        tables = [top.backend_table(capture, whole)]
    else:
        every = statements(capture)
        # One file is one table: of those that read, where that was measured
        tables = top.statement_table(every, whole) or top.writing_table(every, capture, whole)
    if not tables:
        raise UsageError(f"there are no {view.part or 'statements'} in it, of those that read")
    for table in tables:
        yield from _lines(table)


def _lines(table: Table) -> Iterator[str]:
    line = io.StringIO()
    writer = csv.writer(line, lineterminator="\r\n")
    heads = [f"{each.title}{_SUFFIXES.get(each.unit, '')}" for each in table.columns]
    writer.writerow([table.first, *(head.replace(" ", "_") for head in heads)])
    for name, values in table.rows:
        writer.writerow([_text(name), *map(_cell, values)])
    yield line.getvalue()


def _cell(value: Value) -> Value:
    return _text(value) if isinstance(value, str) else value


def _text(text: str) -> str:
    shown = escape(text)
    return f"'{shown}" if shown.startswith(_FORMULA) else shown
