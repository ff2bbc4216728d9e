"""What is said of a lab result in sentences, in each form: of what it is, and how it was made."""

from collections import Counter
from datetime import UTC, datetime

from .. import units
from ..model.lab_result import Device, Result, Storage
from ..reporters.document import Paragraph, Section
from ..reporters.terminal.capture_report import QUERIES, measured
from .answers import lost
from .core.figures import label
from .experiments import presentation


def head(result: Result) -> list[str]:
    """Return what it is of, then what has to be known first: simulated, partial, lost."""
    started = datetime.fromisoformat(result.started).astimezone(UTC)
    version = f"PostgreSQL {result.server.version}" if result.server.version else "server"
    cpus = f"{result.host.cpus} {'CPU' if result.host.cpus == 1 else 'CPUs'}"
    said = [
        f"{presentation(result.experiment).title}: {started:%Y-%m-%d %H:%M:%S} UTC, "
        f"{units.duration(result.duration_s * 1e9)}, {version}, kernel {result.host.kernel}, {cpus}"
    ]
    simulated = [s.name for s in result.storages if s.simulated]
    if simulated:
        said.append(
            f"Simulated: {', '.join(simulated)}. Their times are those that the simulation was "
            "given, not those of a real device."
        )
    if result.partial:
        said.append(f"{partial(result)} What follows is of those that were finished.")
    return [*said, *lost(result)]


def partial(result: Result) -> str:
    """How many runs it has of those that were asked for, where that is not all."""
    cells = Counter(cell.run for cell in result.cells)
    whole = sum(number == max(cells.values()) for number in cells.values())
    asked = "?" if result.options.runs is None else result.options.runs
    return f"Partial: {whole} of {asked} runs; it did not get to the rest."


def sections(result: Result) -> list[Section]:
    """Return what was measured, as data."""
    nothing = Paragraph("No run was finished: there is nothing to show.")
    found = presentation(result.experiment).sections(result)
    return found or [Section("nothing", [nothing], "What was measured")]


def how(result: Result) -> list[str]:
    """Return on what it was made, how, and by what; what was not measured, and what was lost."""
    said = [f"{label(storage)}: {about(storage)}" for storage in result.storages]
    said += presentation(result.experiment).method(result)
    probes = result.probes
    way = measured(probes.type, probes.operations)
    said += [f"{way}, {QUERIES[probes.queries]}, engine {probes.engine}."]
    if probes.shortest_ns is not None:
        said.append(
            f"The shortest read that was seen took {units.duration(probes.shortest_ns)}: what is "
            "shorter, this probe type cannot show."
        )
    said += [f"Not measured: {missing}" for missing in probes.not_measured]
    return [*said, *(lost(result) or ["Lost: nothing."])]


def about(storage: Storage) -> str:
    """What is below it, as the system tells: `ext4 on sda, rotational, …, in /hdd`."""
    if storage.medium == "tmpfs":
        words = ["memory, without a device (tmpfs)"]
    else:
        words = [_device(storage.device)] if storage.device else ["device not known"]
    if storage.medium == "memory":
        words.insert(0, "held in the OS cache while it was measured")
    return f"{'; '.join(words)}; in {storage.directory}"


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
