"""The pages experiment as a document: each storage's figures, what follows, how it was run."""

from ...model.lab_result import QueryCell
from ...reporters.document import Section
from ..core.figures import figures
from ..core.finding_text import capital, label_of
from ..core.method_text import made, table_and_runs
from ..core.valid_runs import PATTERNS, left_out, unproven
from .compared import follows, published
from .findings import found_in
from .result import PagesResult
from .side_by_side import every_storage, storage_section


def sections(result: PagesResult) -> list[Section]:
    """Return all that is said of this experiment, but how it was made."""
    found = found_in(result)
    measured = figures(result)
    if not measured:
        return []
    parts = []
    for number, storage in enumerate(result.storages):
        of = {each.pattern: each for each in measured if each.storage is storage}
        if of:
            parts.append(storage_section(number, storage, of, found))
    return [
        every_storage(result, measured, found),
        *parts,
        *follows(result, measured, found),
        published(measured, found),
    ]


def runs(result: PagesResult) -> list[str]:
    """Return what was run, how caches were made cold or full, and which runs do not count."""
    queries = result.options.queries
    said = [table_and_runs(result)]
    for pattern in PATTERNS:
        if pattern in queries:
            said.append(f"{capital(pattern)}: {queries[pattern]}")
    said.append(made(result))
    for out in left_out(result):
        said.append(f"Left out: {_cell(result, out.cell)}: {out.why}.")
    missing = [_cell(result, cell) for cell in unproven(result)]
    if missing and not result.options.direct_io:
        said.append(f"Not proven cold or cached: {'; '.join(missing)}.")
    return said


def _cell(result: PagesResult, cell: QueryCell) -> str:
    return f"{label_of(result, cell.storage)}, {cell.pattern}, run {cell.run}"
