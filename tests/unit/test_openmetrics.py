"""A capture as OpenMetrics, as Prometheus' own parser reads it."""

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from captures import CACHED, DEVICE, HOSTILE, ISSUED, some_backend, some_capture, some_reads
from pgtrace.model.capture import Buffers, Capture, Excluded, Lost
from pgtrace.reporters.openmetrics import report
from pgtrace.reporters.view import View
from pgtrace.terminal_text import escape


def families(capture: Capture) -> dict[str, Any]:
    text = "".join(report(capture, View()))
    assert text.endswith("\n# EOF\n")
    return {family.name: family for family in text_string_to_metric_families(text)}


def total(family: Any, **labels: str) -> float:
    return sum(
        sample.value
        for sample in family.samples
        if sample.name.endswith("_total") and labels.items() <= sample.labels.items()
    )


def test_sums_are_in_seconds_and_bytes_by_what_tells_them_apart() -> None:
    wal = some_reads([(30_000, 12)], operation="write", kind="wal")
    found = families(some_capture(some_backend(io=[CACHED, DEVICE, ISSUED, wal])))
    assert total(found["pgtrace_io_operations"], operation="read") == (
        CACHED.count + DEVICE.count + ISSUED.count
    )
    assert total(found["pgtrace_io_seconds"], source="device") == DEVICE.total_ns / 1e9
    assert total(found["pgtrace_io_bytes"], operation="write", kind="wal") == wal.bytes
    assert total(found["pgtrace_io_device_bytes"], datname="digoal") == (
        DEVICE.device_bytes + ISSUED.device_bytes
    )


@given(st.lists(st.integers(0, 1 << 41), min_size=1, max_size=40))
def test_a_bucket_counts_what_took_at_most_so_long(times: list[int]) -> None:
    reads = some_reads([(ns, n) for ns, n in Counter(times).items()], source="device")
    family = families(some_capture(some_backend(io=[reads])))["pgtrace_io_latency_seconds"]
    samples = [s for s in family.samples if s.labels.get("source") == "device"]
    for sample in samples:
        if sample.name.endswith("_bucket") and sample.labels["le"] != "+Inf":
            most = round(float(sample.labels["le"]) * 1e9)
            assert sample.value == sum(ns <= most for ns in times)
    sums = {s.name.rpartition("_")[2]: s.value for s in samples if "le" not in s.labels}
    assert sums == {"count": len(times), "sum": reads.total_ns / 1e9}


def test_losses_failures_and_shared_buffers_are_counted() -> None:
    backend = some_backend(failed={"read": Excluded(3)}, short={"read": Excluded(2)})
    taken = some_capture(
        backend, lost=Lost(read=5, in_flight={"read": 1}), buffers=[Buffers("digoal", 70, 30)]
    )
    found = families(taken)
    assert total(found["pgtrace_io_failed"], operation="read") == 3
    assert total(found["pgtrace_io_short"], operation="read") == 2
    assert (total(found["pgtrace_lost"], what="read"), total(found["pgtrace_lost"])) == (5, 6)
    assert total(found["pgtrace_shared_buffers_hit"], datname="digoal") == 70
    assert total(found["pgtrace_shared_buffers_read"], datname="digoal") == 30


def test_neither_statements_nor_relations_are_told() -> None:
    secret = some_reads([(5, 1)], relation="public.patients")
    text = "".join(report(some_capture(some_backend(io=[secret])), View()))
    assert "patients" not in text
    assert "select" not in text


def test_hostile_names_stay_labels() -> None:
    found = families(some_capture(some_backend(datname=HOSTILE + '\\"\n')))
    (name,) = {s.labels["datname"] for s in found["pgtrace_io_bytes"].samples}
    assert name == escape(HOSTILE + '\\"\n')


def test_the_older_format_has_its_types_too() -> None:
    """node_exporter reads that one from files, and leaves out a file that has another."""
    text = "".join(report(some_capture(some_backend()), View()))
    types = {line.split()[-1] for line in text.splitlines() if line.startswith("# TYPE ")}
    assert types <= {"counter", "gauge", "histogram", "summary"}
    assert 'pgtrace_info{version="' in text
