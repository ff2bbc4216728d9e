"""A lab result as a page: what the experiment found, then on what, and how it was measured."""

from collections.abc import Sequence

from ..model.lab_result import Result, Storage
from ..reporters.html import whole
from ..reporters.html.charts import Charts
from ..reporters.html.parts import Row, escaped, paragraphs, section, table
from ..reporters.view import View
from . import result_words
from .answers import answer
from .core.figures import label
from .experiments import experiment

_COLUMNS = (
    "file system", "device", "kind", "rotational", "scheduler", "read-ahead", "queue depth",
    "virtual", "measured", "directory",
)  # fmt: skip
_MEDIUM = {
    "device": "as the device serves it",
    "memory": "held in the OS cache",
    "tmpfs": "memory, no device",
}


def report(result: Result, _: View) -> list[str]:
    """Return it in one."""
    return [render(result)]


def render(result: Result) -> str:
    """Return the page."""
    charts = Charts()
    head, *warnings = result_words.head(result)
    of = experiment(result.experiment).presentation
    how = [*result_words.how(result), *of.method(result)]
    chapters = of.chapters(result, charts)
    chapters.append(("storages", "Storages", storages(result.storages)))
    chapters.append(("how", "How it was measured", paragraphs(how)))
    links = "".join(
        f'<li><a href="#{at}">{escaped(name)}</a></li>' for at, name, c in chapters if c
    )
    parts = [
        f"<header>\n<h1>{escaped(of.title)}</h1>",
        paragraphs([f"{head.partition(': ')[2]}."], "lead"),
        f'<nav aria-label="On this page"><ul>{links}</ul></nav>\n</header>',
        paragraphs(warnings, "warning"),
        paragraphs(answer(result)),
        *(section(*chapter) for chapter in chapters),
    ]
    return whole(head, "\n".join(parts), charts)


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
