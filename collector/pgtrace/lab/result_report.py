"""A lab result as text for a person: what was found, the figures, then how it was measured."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from .. import units
from ..model.lab_result import Device, Finding, Result, Storage
from ..reporters.terminal.capture_report import QUERIES, measured
from ..reporters.terminal.sentence import sentence
from ..reporters.view import WIDTH, View
from ..terminal_text import escape
from .answers import answer, lost
from .core.figures import label
from .presentations import presentation


def report(result: Result, view: View) -> list[str]:
    """Return it in one."""
    return [render(result, width=view.width)]


def render(result: Result, *, width: int = WIDTH) -> str:
    """Return the report. Sentences and bars fit `width` columns; tables need 80."""
    lines = head(result, width)
    if found := answer(result):
        lines += ["", *(line for words in found for line in sentence(escape(words), width))]
    of = presentation(result)
    lines += of.sections(result, width)
    others = [f for f in result.findings if f.name not in of.told]
    if others:
        lines += ["", "Findings", *_others(others, width)]
    lines += ["", "How it was measured", *_storages(result, width)]
    lines += [*of.method(result, width), *how(result, width)]
    return "\n".join(lines) + "\n"


def head(result: Result, width: int) -> list[str]:
    """Return what it is of, then what has to be known first: simulated, partial."""
    started = datetime.fromisoformat(result.started).astimezone(UTC)
    version = f"PostgreSQL {escape(result.server.version)}" if result.server.version else "server"
    cpus = f"{result.host.cpus} {'CPU' if result.host.cpus == 1 else 'CPUs'}"
    lines = sentence(
        f"{presentation(result).title}: {started:%Y-%m-%d %H:%M:%S} UTC, "
        f"{units.duration(result.duration_s * 1e9)}, {version}, "
        f"kernel {escape(result.host.kernel)}, {cpus}",
        width,
    )
    simulated = [escape(s.name) for s in result.storages if s.simulated]
    if simulated:
        lines += sentence(
            f"Simulated: {', '.join(simulated)}. Their times are those that the simulation was "
            "given, not those of a real device.",
            width,
        )
    if result.partial:
        lines += sentence(f"{partial(result)} What follows is of those that were finished.", width)
    for words in lost(result):
        lines += sentence(words, width)
    return lines


def partial(result: Result) -> str:
    """How many runs it has of those that were asked for, where it was interrupted."""
    cells = Counter(cell.run for cell in result.cells if cell.plan is None)
    whole = sum(number == max(cells.values()) for number in cells.values())
    asked = result.options.get("runs")
    return f"Partial: {whole} of {asked if isinstance(asked, int) else '?'} runs, then interrupted."


def how(result: Result, width: int) -> list[str]:
    """Return by what it was measured, what was not, and what was lost."""
    probes = result.probes
    how = measured(probes.type, probes.operations)
    lines = sentence(f"{how}, {QUERIES[probes.queries]}, engine {probes.engine}.", width)
    if probes.shortest_ns is not None:
        lines += sentence(
            f"The shortest read that was seen took {units.duration(probes.shortest_ns)}: what is "
            "shorter, this probe type cannot show.",
            width,
        )
    for missing in probes.not_measured:
        lines += sentence(f"Not measured: {escape(missing)}", width)
    for words in lost(result) or ["Lost: nothing."]:
        lines += sentence(words, width)
    return lines


def _storages(result: Result, width: int) -> list[str]:
    lines = []
    for storage in result.storages:
        lines += sentence(f"{escape(label(storage))}: {about(storage)}", width)
    return lines


def about(storage: Storage) -> str:
    """What is below it, as the system tells: `ext4 on sda, rotational, …, in /hdd`."""
    if storage.medium == "tmpfs":
        words = ["memory, without a device (tmpfs)"]
    else:
        words = [_device(storage.device)] if storage.device else ["device not known"]
    if storage.medium == "memory":
        words.insert(0, "held in the OS cache while it was measured")
    return escape(f"{'; '.join(words)}; in {storage.directory}")


def _device(device: Device) -> str:
    words = [f"{device.filesystem} on {device.name or device.kind}"]
    if device.name and not device.name.startswith(device.kind):
        words.append(device.kind)
    if device.rotational is not None:
        words.append("rotational" if device.rotational else "not rotational")
    if device.scheduler is not None:
        words.append(f"scheduler {device.scheduler}")
    if device.read_ahead_kb is not None:
        words.append(f"read-ahead {device.read_ahead_kb} KiB")
    if device.queue_depth is not None:
        words.append(f"queue depth {device.queue_depth}")
    if device.virtual:
        words.append("virtual: what is below it cannot be seen")
    return ", ".join(words)


def _others(findings: Sequence[Finding], width: int) -> list[str]:
    """Findings that have no section of their own yet."""
    lines = []
    for found in findings:
        of = f"{found.storage}, " if found.storage else ""
        lines += sentence(escape(f"{of}{found.name}: {found.verdict}"), width, 2)
    return lines
