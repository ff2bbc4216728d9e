"""The file of a lab result is read back as it was written, and nothing else is taken for one."""

import json
from pathlib import Path

import pytest

from pgtrace.errors import UsageError
from pgtrace.files import documents, output_file
from pgtrace.lab import result_file
from pgtrace.lab.pages.result import PagesResult, Ratio, RatioDetails
from pgtrace.lab.planner.result import SweepOptions
from pgtrace.model import encoding
from pgtrace.model.capture import Host, Io, Latencies, Lost, Probes, Server
from pgtrace.model.lab_result import Device, QueryCell, Storage

READS = Io(
    source="device",
    pattern="random",
    size="1",
    scope="query",
    bytes=16384,
    blocks=2,
    device_bytes=16384,
    latency=Latencies(
        2, 400_000, 190_000, 210_000, buckets=[(188416, 196608, 1), (204800, 212992, 1)]
    ),
)
RESULT = PagesResult(
    partial=False,
    started="2026-01-31T12:00:00.000000Z",
    duration_s=3.5,
    host=Host("6.1.0", 2),
    server=Server("15.14"),
    probes=Probes("libbpf", "tracepoint", "usdt"),
    lost=Lost(),
    options=SweepOptions(rows=1000),
    storages=[Storage("ssd", "/mnt/ssd", simulated=True, device=Device("loop", "ext4"))],
    cells=[QueryCell("ssd", 1, 0.5, pattern="random", state="cold", io=[READS])],
    findings=[
        Ratio(
            "random reads cost more", "ssd", 9.7, 9.1, 10.2, 5, details=RatioDetails("read latency")
        )
    ],
)


BY = {"by": "read latency"}


def write(path: Path, **changes: object) -> Path:
    path.write_bytes(json.dumps(json.loads(encoding.encode(RESULT)) | changes).encode())
    return path


def test_a_lab_result_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "F.json"
    output_file.write(encoding.encode(RESULT), path)
    assert result_file.load_any(path) == RESULT
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_an_experiment_does_not_vary_is_left_out() -> None:
    (cell,) = json.loads(encoding.encode(RESULT))["cells"]
    assert "shared_buffers" not in cell
    assert cell["pattern"] == "random"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cells": [{"storage": "ssd", "run": 1}]}, "not a whole lab result: .*elapsed_s"),
        (
            {"cells": [{"storage": "s", "run": 1, "elapsed_s": -1.0, "pattern": "random"}]},
            "cells.0..elapsed_s",
        ),
        ({"duration_s": 1e308}, "cannot be - at `..duration_s`"),
        (
            {"findings": [{"name": "ratio", "verdict": "b", "value": -1e300, "details": BY}]},
            "cannot be - at `..findings.0..value`",
        ),
        ({"findings": [{"name": "a", "verdict": "b"}]}, "'a' - at `..findings.0..name`"),
        ({"findings": [{"name": "knee", "verdict": "b"}]}, "'knee' - at `..findings.0..name`"),
        (
            {"findings": [{"name": "ratio", "verdict": "b", "details": {}}]},
            "field `by` - at `..findings.0..details`",
        ),
        ({"options": {"rows": "many"}}, "at `..options.rows`"),
        ({"options": {"queries": {"random": 7}}}, "at `..options.queries"),
        ({"experiment": "alchemy"}, "'alchemy' is no experiment that is known here"),
        ({"experiment": "core"}, "'core' is no experiment that is known here"),
        ({"experiment": "sync"}, "not a whole lab result"),
        ({"started": "yesterday"}, "not a whole lab result"),
        ({"schema": "pgtrace.lab/3"}, "upgrade pgtrace"),
    ],
)
def test_a_damaged_lab_result_is_refused(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        result_file.load_any(write(tmp_path / "F.json", **changes))


def test_a_lab_result_is_no_capture(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="lab experiment, not a capture"):
        documents.load(write(tmp_path / "F.json"))
