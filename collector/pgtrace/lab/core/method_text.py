"""How an experiment was run, in words: its table, its runs, its caches, its CPUs."""

from ... import units
from ...model.lab_result import TableResult
from .finding_text import capital
from .valid_runs import counted


def table_and_runs(result: TableResult, table: str = "the benchmark table") -> str:
    """Return what was read, and how often."""
    options = result.options
    parts = []
    if rows := options.rows:
        named = (("heap", options.table_bytes), ("index", options.index_bytes))
        sizes = [f"{name} {units.size(size)}" for name, size in named if size]
        of = f" ({', '.join(sizes)})" if sizes else ""
        parts.append(f"{table}, {units.count(rows)} rows{of}")
    if isinstance(options.shared_buffers, str):
        parts.append(f"shared_buffers {options.shared_buffers}")
    made = len({cell.run for cell in result.cells})
    asked = options.runs or made
    runs = f"{made} {'run' if made == 1 else 'runs'}"
    if made != asked:
        runs = f"{made} of {asked} runs"
    seed = options.seed
    order = "" if seed is None else f", in an order drawn at random with seed {seed}"
    parts.append(f"{runs} of each query on each storage{order}")
    return f"{capital('; '.join(parts))}."


def made(result: TableResult) -> str:
    """How caches were made cold or full, how that was proven, and who ran on which CPU."""
    options = result.options
    by = options.cold_by
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
    if options.restarted:
        parts.append("the server was started again before each run")
    if options.drop_caches:
        parts.append("the whole host's caches were dropped before each run")
    if options.direct_io:
        parts.append("direct I/O: past the page cache")
    pinned = [
        f"{who} on CPU {cpu}"
        for who, cpu in (("server", options.cpu_server), ("tracer", options.cpu_tracer))
        if cpu is not None
    ]
    parts.append(", ".join(pinned) or "server and tracer were not pinned to CPUs")
    return f"{'. '.join(map(capital, parts))}."
