"""The pages experiment as text: how it was run, each storage's figures, and what follows."""

from collections.abc import Mapping

from .. import units
from ..lab import pages_findings
from ..lab.counted import PATTERNS, counted, left_out, unproven
from ..lab.figures import figures
from ..lab.result import Cell, Result
from .lab_findings import between, capital, cpu, label_of, published, ratios
from .sentence import sentence
from .side_by_side import storage_lines

NAMES = pages_findings.NAMES
"""Of the findings that are shown here."""
_TOLD = frozenset(
    {"rows", "runs", "seed", "order", "shared_buffers", "cpu_server", "cpu_tracer", "drop_caches",
     "restarted", "direct_io", "cold_by", "queries", "table_bytes", "index_bytes"}
)  # fmt: skip


def sections(result: Result, width: int) -> list[str]:
    """Return all that is said of this experiment, after where and by what it was measured."""
    found = [f for f in result.findings if f.name in NAMES] or pages_findings.findings(result)
    lines = ["", *runs(result, width)]
    measured = figures(result)
    if not measured:
        return [*lines, "", "No run was finished: there is nothing to show."]
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


def table_and_runs(result: Result, table: str = "document 002's table") -> str:
    """Return what was read, and how often."""
    options = result.options
    parts = []
    if rows := number(options, "rows"):
        named = (
            ("heap", number(options, "table_bytes")),
            ("index", number(options, "index_bytes")),
        )
        sizes = [f"{name} {units.size(size)}" for name, size in named if size]
        of = f" ({', '.join(sizes)})" if sizes else ""
        parts.append(f"{table}, {units.count(rows)} rows{of}")
    if isinstance(options.get("shared_buffers"), str):
        parts.append(f"shared_buffers {options['shared_buffers']}")
    made = len({cell.run for cell in result.cells if cell.pattern and cell.plan is None})
    asked = number(options, "runs") or made
    runs = f"{made} {'run' if made == 1 else 'runs'}"
    if made != asked:
        runs = f"{made} of {asked} runs"
    seed = number(options, "seed")
    order = "" if seed is None else f", in an order drawn at random with seed {seed}"
    parts.append(f"{runs} of each query on each storage{order}")
    return f"{capital('; '.join(parts))}."


def made(result: Result) -> str:
    """How caches were made cold or full, how that was proven, and who ran on which CPU."""
    options = result.options
    by = options.get("cold_by")
    parts = []
    for state, how in (("cold", f"cold by {by}" if by else "cold"), ("cached", "cached")):
        own = [cell for cell in counted(result) if cell.state == state]
        seen = [cell.resident_before for cell in own if cell.resident_before is not None]
        if seen:
            edge = max(seen) if state == "cold" else min(seen)
            limit = "at most" if state == "cold" else "at least"
            share = f"{limit} {units.share(edge)} of the pages were in the page cache"
            parts.append(f"{how}: {share} when a run began, by mincore")
        elif own:
            parts.append(how)
    if options.get("restarted") is True:
        parts.append("the server was started again before each run")
    if options.get("drop_caches") is True:
        parts.append("the whole host's caches were dropped before each run")
    if options.get("direct_io") is True:
        parts.append("direct I/O: past the page cache")
    pinned = [
        f"{who} on CPU {options[key]}"
        for who, key in (("server", "cpu_server"), ("tracer", "cpu_tracer"))
        if options.get(key) is not None
    ]
    parts.append(", ".join(pinned) or "server and tracer were not pinned to CPUs")
    return f"{'. '.join(map(capital, parts))}."


def _cell(result: Result, cell: Cell) -> str:
    return f"{label_of(result, cell.storage)}, {cell.pattern}, run {cell.run}"


def number(options: Mapping[str, object], key: str) -> int | None:
    """Return an option that is a count, None if it is none."""
    value = options.get(key)
    return value if isinstance(value, int) and value >= 0 else None


def _scalar(value: object) -> bool:
    return isinstance(value, str | int | float)
