"""A lab result as a page: how it was measured, on what, then what the experiment found."""

from collections.abc import Sequence

from ..lab import planner_findings
from ..lab.figures import label
from ..lab.result import Finding, Result, Storage
from . import (
    html_buffers,
    html_pages,
    html_planner,
    html_readahead,
    html_sync,
    lab,
    lab_buffers,
    lab_pages,
    lab_readahead,
    lab_sync,
)
from .html_charts import Charts
from .html_parts import Row, escaped, paragraphs, section, table
from .lab_findings import capital, interval, label_of

_WHOLE = 1 << 20
"""A width at which no sentence is folded."""
_COLUMNS = (
    "file system", "device", "kind", "rotational", "scheduler", "read-ahead", "queue depth",
    "virtual", "measured", "directory",
)  # fmt: skip
_MEDIUM = {
    "device": "as the device serves it",
    "memory": "held in the OS cache",
    "tmpfs": "memory, no device",
}


def page(result: Result, charts: Charts) -> tuple[str, str]:
    """Return title and body."""
    head, *warnings = lab.head(result, _WHOLE)
    how = lab.how(result, _WHOLE)
    chapters = [("storages", "Storages", storages(result.storages))]
    told: frozenset[str] = frozenset()
    if result.experiment == "pages":
        how += lab_pages.runs(result, _WHOLE)
        chapters += html_pages.chapters(result, charts)
        chapters += html_planner.chapters(result, charts)
        told = lab_pages.NAMES | planner_findings.NAMES
    elif result.experiment == "readahead":
        how += lab_readahead.runs(result, _WHOLE)
        chapters += html_readahead.chapters(result, charts)
        told = lab_readahead.NAMES
    elif result.experiment == "buffers":
        how += lab_buffers.runs(result, _WHOLE)
        chapters += html_buffers.chapters(result, charts)
        told = lab_buffers.NAMES
    elif result.experiment == "sync":
        how += lab_sync.runs(result)
        chapters += html_sync.chapters(result)
        told = lab_sync.NAMES
    others = [f for f in result.findings if f.name not in told]
    chapters.append(("findings", "Findings", findings(result, others)))
    chapters = [("how", "How it was measured", paragraphs(how)), *chapters]
    links = "".join(
        f'<li><a href="#{at}">{escaped(name)}</a></li>' for at, name, c in chapters if c
    )
    parts = [
        f"<header>\n<h1>{escaped(lab.TITLES[result.experiment])}</h1>",
        paragraphs([f"{head.partition(': ')[2]}."], "lead"),
        f'<nav aria-label="On this page"><ul>{links}</ul></nav>\n</header>',
        paragraphs(warnings, "warning"),
        *(section(*chapter) for chapter in chapters),
    ]
    return head, "\n".join(parts)


def storages(every: Sequence[Storage]) -> str:
    """What lies below each, as the system tells; "-" is what it does not say."""
    return table("What was compared", "storage", [("", _COLUMNS)], [_storage(s) for s in every])


def _storage(storage: Storage) -> Row:
    device = storage.device
    told: list[object] = [None] * 8
    if device:
        ahead = None if device.read_ahead_kb is None else f"{device.read_ahead_kb} KiB"
        told = [
            device.filesystem, device.name, device.kind, device.rotational, device.scheduler,
            ahead, device.queue_depth, device.virtual,
        ]  # fmt: skip
    cells = ["-" if one is None else _word(one) for one in told]
    medium = _MEDIUM[storage.medium]
    return Row(label(storage), [*cells, medium, storage.directory])


def _word(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def findings(result: Result, found: Sequence[Finding]) -> str:
    """Those that have no place of their own; "" of none."""
    rows = [
        Row(f.name, [label_of(result, f.storage) if f.storage else "-", *shown(f)]) for f in found
    ]
    heads = [("", ["storage", "value", "95 % interval", "observations", "what it says"])]
    return table("Findings", "finding", heads, rows, words=["what it says"]) if rows else ""


def shown(f: Finding) -> list[str]:
    """Value, interval, observations, words."""
    value = "-" if f.value is None else f"{f.value:.3g}"
    return [
        value,
        interval(f) if f.low is not None else "-",
        str(f.units or "-"),
        capital(f.verdict),
    ]
