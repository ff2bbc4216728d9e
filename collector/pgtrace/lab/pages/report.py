"""The pages experiment as text: how it was run, each storage's figures, and what follows."""

from ...model.lab_result import Cell, Result
from ...reporters.terminal.sentence import sentence
from ..core.figures import figures
from ..core.finding_text import capital, findings_of, label_of
from ..core.method_text import made, table_and_runs
from ..core.valid_runs import PATTERNS, left_out, unproven
from . import findings as pages_findings
from .finding_tables import between, cpu, published, ratios
from .side_by_side import storage_lines

NAMES = pages_findings.NAMES
"""Of the findings that are shown here."""
_TOLD = frozenset(
    {"rows", "runs", "seed", "order", "shared_buffers", "cpu_server", "cpu_tracer", "drop_caches",
     "restarted", "direct_io", "cold_by", "queries", "table_bytes", "index_bytes"}
)  # fmt: skip


def sections(result: Result, width: int) -> list[str]:
    """Return all that is said of this experiment, but how it was made."""
    found = findings_of(result, NAMES, pages_findings.findings)
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


# Options are whatever the file says: each is shown if it is what it should be.


def runs(result: Result, width: int) -> list[str]:
    """Return what was run, how caches were made cold or full, and which runs do not count."""
    options = result.options
    lines = sentence(table_and_runs(result), width)
    queries = options.get("queries")
    if isinstance(queries, dict):
        for pattern in PATTERNS:
            if pattern in queries:
                lines += sentence(f"{capital(pattern)}: {queries[pattern]}", width)
    lines += sentence(made(result), width)
    for out in left_out(result):
        lines += sentence(f"Left out: {_cell(result, out.cell)}: {out.why}.", width)
    missing = [_cell(result, cell) for cell in unproven(result)]
    if missing and options.get("direct_io") is not True:
        lines += sentence(f"Not proven cold or cached: {'; '.join(missing)}.", width)
    rest = {k: v for k, v in options.items() if k not in _TOLD and _scalar(v)}
    if rest:
        shown = ", ".join(f"{k} {v}" for k, v in rest.items())
        lines += sentence(f"Further options: {shown}.", width)
    return lines


def _cell(result: Result, cell: Cell) -> str:
    return f"{label_of(result, cell.storage)}, {cell.pattern}, run {cell.run}"


def _scalar(value: object) -> bool:
    return isinstance(value, str | int | float)
