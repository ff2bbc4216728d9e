"""What is told of a kernel's preemption, by what there is to be read."""

import os
from types import SimpleNamespace

import pytest

from pgtrace.engines import ProbeType, Request, select
from pgtrace.errors import UnsupportedError
from pgtrace.libbpf import keeping_cpu
from pgtrace.linux import preemption

DYNAMIC = "#1 SMP PREEMPT_DYNAMIC Debian 7.2.12-1 (2026-11-20)"
CONFIG = "CONFIG_PREEMPT_BUILD=y\n# CONFIG_PREEMPT is not set\nCONFIG_PREEMPT_{}=y\n"


SCHED, ASKED, BUILT = (
    "/sys/kernel/debug/sched/preempt",
    "/proc/cmdline",
    "/boot/config-7.2.12",
)


@pytest.mark.parametrize(
    ("version", "files", "found"),
    [
        ("#1 SMP PREEMPT_RT Debian 6.12.1", {}, "rt"),
        (DYNAMIC, {SCHED: "none voluntary (full)\n", ASKED: "preempt=none"}, "full"),
        (DYNAMIC, {SCHED: "full (lazy)\n"}, "lazy"),
        (DYNAMIC, {ASKED: "ro preempt=full quiet", BUILT: CONFIG.format("LAZY")}, "full"),
        (DYNAMIC, {ASKED: "preempt=full preempt=voluntary"}, "voluntary"),
        (DYNAMIC, {BUILT: CONFIG.format("LAZY")}, "lazy"),
        (DYNAMIC, {ASKED: "nopreempt=full", BUILT: CONFIG.format("VOLUNTARY")}, "voluntary"),
        (DYNAMIC, {BUILT: "CONFIG_PREEMPT_BUILD=y\nCONFIG_PREEMPT=y\n"}, "full"),
        ("#1 SMP PREEMPT", {ASKED: "preempt=none", BUILT: "CONFIG_PREEMPT=y\n"}, "full"),
        ("#1 SMP", {BUILT: CONFIG.format("NONE")}, "none"),
        (DYNAMIC, {}, ""),
    ],
)
def test_the_model_is_found(
    monkeypatch: pytest.MonkeyPatch, version: str, files: dict[str, str], found: str
) -> None:
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(version=version, release="7.2.12"))
    monkeypatch.setattr(preemption, "_text", lambda file: files.get(file, ""))
    assert preemption.model.__wrapped__() == found
    monkeypatch.setattr(preemption, "model", lambda: found)
    assert preemption.may_be_anywhere() == (found in ("full", "rt"))


@pytest.mark.parametrize("release", ["6.12.9", "6.13.1-arch1", "6.14.0-35-generic", "7.0.1"])
@pytest.mark.parametrize("model", ["", "none", "voluntary", "lazy", "full", "rt"])
@pytest.mark.parametrize("keeps", [False, True])
def test_a_kernel_that_mixes_up_variables_is_refused(
    monkeypatch: pytest.MonkeyPatch, release: str, model: str, keeps: bool
) -> None:
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(release=release))
    monkeypatch.setattr(preemption, "model", lambda: model)
    monkeypatch.setattr(keeping_cpu, "is_possible", lambda: keeps)
    if release.startswith("6.12") or keeps or model in ("", "none", "voluntary"):
        select.check_preemption()
        return
    with pytest.raises(UnsupportedError, match="boot with preempt=voluntary") as refused:
        select.check_preemption()
    assert release in str(refused.value)


@pytest.mark.parametrize(
    ("release", "model", "best"),
    [
        ("6.12.1", "voluntary", "fentry"),
        ("6.12.1", "full", "tracepoint"),
        ("7.0.1", "lazy", "fentry"),
        ("7.0.1", "rt", "tracepoint"),
        ("7.2.12", "full", "fentry"),
    ],
)
def test_at_a_tracepoint_a_program_keeps_its_cpu(
    monkeypatch: pytest.MonkeyPatch, release: str, model: str, best: str
) -> None:
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(release=release))
    monkeypatch.setattr(preemption, "model", lambda: model)
    tried: list[ProbeType] = []

    class Engine:
        def __init__(self, _request: Request, way: ProbeType) -> None:
            tried.append(way)

        def close(self) -> None:
            pass

    monkeypatch.setattr(select, "_engine", lambda _name: Engine)
    select.probe_types(1)
    assert tried[0] == best
    assert sorted(tried) == ["fentry", "kprobe", "tracepoint"]
