"""A capture as OpenMetrics, for node_exporter's textfile collector and its like.

https://prometheus.io/docs/specs/om/open_metrics_spec/. Neither texts of statements nor names of
relations are in it: there may be any number, and each would be a series for ever.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from .. import __version__
from ..model.capture import Capture, Io
from ..model.histogram import Histogram
from ..terminal_text import escape
from .view import View

_NS = 1e9
_Labels = tuple[tuple[str, str], ...]


def report(capture: Capture, _: View) -> Iterator[str]:
    """Yield each family of metrics; seconds and bytes, as the convention is."""
    started = datetime.fromisoformat(capture.started).timestamp()
    probes = capture.probes
    about = (
        ("version", __version__),
        ("engine", probes.engine),
        ("probe_type", probes.type),
        ("server_version", capture.server.version or ""),
    )
    # No `info`: node_exporter's textfile collector reads the older format, refuses a file with a
    # type that this does not have, and takes what is new in this one for comments
    yield _family("pgtrace_info", "gauge", "How it was measured.", {about: 1})
    yield _gauge("pgtrace_capture_start_time_seconds", "When tracing began.", started)
    yield _gauge("pgtrace_capture_duration_seconds", "How long.", capture.duration_s)
    yield from _sums(capture)
    yield _latencies(capture)
    totals = capture.totals.items()
    failed = _by("operation", {name: total.failed for name, total in totals})
    yield _family("pgtrace_io_failed", "counter", "Reads, writes and fsyncs that failed.", failed)
    short = _by("operation", {name: total.short for name, total in totals})
    yield _family("pgtrace_io_short", "counter", "Reads and writes that came short.", short)
    lost = {name: getattr(capture.lost, name) for name in capture.lost.__struct_fields__}
    lost |= {"in_flight": sum(capture.lost.in_flight.values())}
    words = "What is in no number, or in one with less detail."
    yield _family("pgtrace_lost", "counter", words, _by("what", lost))
    for name, what in ("hit", "found in"), ("read", "not found in"):
        blocks = {each.datname or "": getattr(each, name) for each in capture.buffers}
        yield _family(
            f"pgtrace_shared_buffers_{name}",
            "counter",
            f"Blocks {what} shared_buffers.",
            _by("datname", blocks),
        )
    yield "# EOF\n"


def _sums(capture: Capture) -> Iterator[str]:
    """What all processes did, by what tells it apart."""
    sums: defaultdict[str, Counter[_Labels]] = defaultdict(Counter)
    for backend in capture.backends:
        for each in backend.io:
            labels = (
                ("operation", each.call or each.operation),
                ("source", each.source),
                ("kind", each.kind),
                ("scope", each.scope),
                ("performed_by", each.performed_by),
                ("backend_type", backend.backend_type or ""),
                ("datname", backend.datname or ""),
            )
            sums["operations"][labels] += each.count
            sums["seconds"][labels] += each.total_ns
            sums["bytes"][labels] += each.bytes
            sums["device_bytes"][labels] += each.device_bytes
    for name, helped in (
        ("operations", "Reads, writes and fsyncs."),
        ("seconds", "Time that they took."),
        ("bytes", "Bytes that were read or written."),
        ("device_bytes", "Bytes that were asked of devices during them."),
    ):
        values: Mapping[_Labels, float] = sums[name]
        if name == "seconds":
            values = {labels: ns / _NS for labels, ns in values.items()}
        yield _family(f"pgtrace_io_{name}", "counter", helped, values)


def _latencies(capture: Capture) -> str:
    """Histograms by powers of two of nanoseconds: a bucket ends with its last value."""
    found: defaultdict[_Labels, list[Io]] = defaultdict(list)
    for backend in capture.backends:
        for each in backend.io:
            operation: str = each.call or each.operation
            found[("operation", operation), ("source", each.source)].append(each)
    lines = []
    for labels, several in sorted(found.items()):
        latencies, below = Histogram.of(several), 0
        for _, high, count in latencies.fold():
            below += count
            if high < 1 << 64:
                end = ("le", str((high - 1) / _NS))
                lines.append(_line("pgtrace_io_latency_seconds_bucket", (*labels, end), below))
        end = ("le", "+Inf")
        lines += [
            _line("pgtrace_io_latency_seconds_bucket", (*labels, end), latencies.count),
            _line("pgtrace_io_latency_seconds_count", labels, latencies.count),
            _line("pgtrace_io_latency_seconds_sum", labels, latencies.total_ns / _NS),
        ]
    return _head("pgtrace_io_latency_seconds", "histogram", "How long each took.") + "".join(lines)


def _by(label: str, values: Mapping[Any, float]) -> dict[_Labels, float]:
    return {((label, name),): value for name, value in values.items()}


def _gauge(name: str, helped: str, value: float) -> str:
    return _family(name, "gauge", helped, {(): value})


def _family(name: str, kind: str, helped: str, values: Mapping[_Labels, float]) -> str:
    suffix = "_total" if kind == "counter" else ""
    lines = (_line(f"{name}{suffix}", labels, value) for labels, value in sorted(values.items()))
    return _head(name, kind, helped) + "".join(lines)


def _head(name: str, kind: str, helped: str) -> str:
    unit = f"# UNIT {name} seconds\n" if name.endswith("_seconds") else ""
    return f"# TYPE {name} {kind}\n{unit}# HELP {name} {helped}\n"


def _line(name: str, labels: Iterable[tuple[str, str]], value: float) -> str:
    inside = ",".join(f'{key}="{_value(text)}"' for key, text in labels)
    return f"{name}{{{inside}}} {value}\n" if inside else f"{name} {value}\n"


def _value(text: str) -> str:
    return escape(text).replace("\\", r"\\").replace('"', r"\"")
