"""The pages experiment as text: how it was run, each storage's figures, and what follows."""

from ...model.lab_result import QueryCell
from ..core.figures import figures
from ..core.finding_text import capital, label_of
from ..core.method_text import made, table_and_runs
from ..core.valid_runs import PATTERNS, left_out, unproven
from .finding_tables import between, cpu, published, ratios
from .findings import found_in
from .result import PagesResult
from .side_by_side import storage_lines


def sections(result: PagesResult, width: int) -> list[str]:
    """Return all that is said of this experiment, but how it was made."""
    found = found_in(result)
    lines: list[str] = []
    measured = figures(result)
    if not measured:
        return ["", "No run was finished: there is nothing to show."]
    for storage in result.storages:
        of = {each.pattern: each for each in measured if each.storage is storage}
        if of:
            lines += ["", *storage_lines(storage, of, found, width)]
    lines += ratios(result, measured, found, width)
    lines += between(result, found, width)
    lines += cpu(result, found, width)
    return [*lines, *published(measured, found, width)]


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
