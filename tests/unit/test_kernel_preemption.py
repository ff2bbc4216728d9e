"""What is told of a kernel's preemption, and what follows from it."""

import ctypes
import os
from types import SimpleNamespace

import pytest
from elftools.elf.elffile import ELFFile

from pgtrace.engines import ProbeType, Request, select
from pgtrace.engines.libbpf_engine import OBJECT
from pgtrace.errors import UnsupportedError
from pgtrace.libbpf import keeping_cpu
from pgtrace.libbpf.objects import Object
from pgtrace.linux import kernel, preemption

DYNAMIC = "#1 SMP PREEMPT_DYNAMIC Debian 7.2.12-1 (2026-11-20)"
SCHED, ASKED = "/sys/kernel/debug/sched/preempt", "/proc/cmdline"
KEEP, RELEASE = (keeping_cpu._call(0, helper) for helper in keeping_cpu._FUNCTIONS)


@pytest.mark.parametrize(
    ("release", "version", "files", "built", "found"),
    [
        ("6.12.1", "#1 SMP PREEMPT_RT Debian 6.12.1", {}, "", "rt"),
        ("6.12.1", DYNAMIC, {SCHED: "none voluntary (full)\n", ASKED: "preempt=none"}, "", "full"),
        ("7.2.1", DYNAMIC, {SCHED: "full (lazy)\n"}, "FULL", "lazy"),
        ("6.12.1", DYNAMIC, {ASKED: "ro preempt=full quiet"}, "VOLUNTARY", "full"),
        ("6.12.1", DYNAMIC, {ASKED: "preempt=full preempt=voluntary"}, "LAZY", "voluntary"),
        ("6.12.1", DYNAMIC, {ASKED: "preempt=full preempt=fully"}, "LAZY", "full"),
        ("7.2.1", DYNAMIC, {ASKED: "preempt=voluntary"}, "LAZY", "lazy"),
        ("6.12.1", DYNAMIC, {ASKED: "nopreempt=full"}, "VOLUNTARY", "voluntary"),
        ("6.12.1", DYNAMIC, {}, "", "full"),
        ("6.12.1", DYNAMIC, {}, None, ""),
        ("6.12.1", "#1 SMP PREEMPT", {ASKED: "preempt=none"}, None, "full"),
        ("6.14.1", "#1 SMP PREEMPT_LAZY Mon Jan 1", {}, None, "lazy"),
        ("6.12.1", "#1 SMP", {}, None, "none"),
    ],
)
def test_the_model_is_found(
    monkeypatch: pytest.MonkeyPatch,
    release: str,
    version: str,
    files: dict[str, str],
    built: str | None,
    *,
    found: str,
) -> None:
    options = None if built is None else {"PREEMPT_BUILD": "y", f"PREEMPT_{built}".rstrip("_"): "y"}
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(version=version, release=release))
    monkeypatch.setattr(preemption, "_text", lambda file: files.get(file, ""))
    monkeypatch.setattr(kernel, "options", lambda: options)
    assert preemption.model() == found
    assert preemption.may_be_anywhere() == (found in ("full", "rt"))


@pytest.mark.parametrize("model", ["", "none", "voluntary", "lazy", "full", "rt"])
@pytest.mark.parametrize("may", ["keep the CPU", "be interpreted", "neither"])
@pytest.mark.parametrize(
    ("release", "machine", "remedy"),
    [
        ("6.12.9", "x86_64", None),
        ("6.13.1-arch1", "x86_64", "preempt=voluntary"),
        ("6.14.0-35-generic", "x86_64", "preempt=voluntary"),
        ("6.14.0-35-generic", "aarch64", None),
        ("6.17.1", "aarch64", "CONFIG_DEBUG_INFO_BTF"),
        ("7.0.1", "x86_64", "CONFIG_DEBUG_INFO_BTF"),
    ],
)
def test_a_kernel_that_mixes_up_variables_is_refused(
    monkeypatch: pytest.MonkeyPatch, release: str, machine: str, remedy: str | None, model: str,
    *, may: str
) -> None:  # fmt: skip
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(release=release, machine=machine))
    monkeypatch.setattr(preemption, "model", lambda: model)
    monkeypatch.setattr(keeping_cpu, "is_possible", lambda: may == "keep the CPU")
    monkeypatch.setattr(keeping_cpu, "has_no_jit", lambda: may == "be interpreted")
    if remedy is None or may != "neither" or model in ("none", "voluntary"):
        select.check_preemption()
        return
    with pytest.raises(UnsupportedError, match=remedy) as refused:
        select.check_preemption()
    assert release in str(refused.value)


@pytest.mark.parametrize(
    ("release", "model", "order"),
    [
        ("6.12.1", "voluntary", ["fentry", "tracepoint", "kprobe"]),
        ("6.12.1", "full", ["tracepoint", "fentry", "kprobe"]),
        ("7.0.1", "lazy", ["fentry", "tracepoint", "kprobe"]),
        ("7.0.1", "rt", ["tracepoint", "fentry", "kprobe"]),
        ("7.2.12", "full", ["fentry", "tracepoint", "kprobe"]),
    ],
)
def test_at_a_tracepoint_a_program_keeps_its_cpu(
    monkeypatch: pytest.MonkeyPatch, release: str, model: str, order: list[str]
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
    assert tried == order


def uprobes() -> dict[str, bytes]:
    """The programs of the object that are for them, before anything is put in its place."""
    with OBJECT.open("rb") as file:
        elf = ELFFile(file)
        section = elf.get_section_by_name("uprobe")
        place, code = elf.get_section_index("uprobe"), section.data()
        return {
            symbol.name: code[symbol["st_value"] : symbol["st_value"] + symbol["st_size"]]
            for symbol in elf.get_section_by_name(".symtab").iter_symbols()
            if symbol["st_shndx"] == place and symbol["st_info"]["type"] == "STT_FUNC"
        }


def test_a_program_for_uprobes_has_no_variables_before_it_keeps_its_cpu() -> None:
    found = uprobes()
    assert len(found) > 15
    for name, code in found.items():
        instructions = [code[at : at + 8] for at in range(0, len(code), 8)]
        begin = instructions.index(KEEP)
        # Stores, by the class; r10 points at the variables
        before = [one for one in instructions[:begin] if one[0] & 7 in (2, 3) or one[1] >> 4 == 10]
        assert not before, name
        assert instructions.count(KEEP) == instructions.count(RELEASE) == 1, name


@pytest.mark.parametrize("call", [b"\x85\x20\0\0\1\2\3\4", b"\5\0\0\0\0\0\0\0"])
def test_placeholders_are_replaced(monkeypatch: pytest.MonkeyPatch, call: bytes) -> None:
    """In all programs, whichever are loaded."""
    calls = dict.fromkeys(keeping_cpu._FUNCTIONS, call)
    monkeypatch.setattr(keeping_cpu, "_calls", lambda: calls)

    class Opened(Object):
        def programs(self) -> dict[str, bytes]:
            keeping_cpu.settle(self._programs.values())
            return {
                name: ctypes.string_at(
                    self._lib.bpf_program__insns(program),
                    8 * self._lib.bpf_program__insn_cnt(program),
                )
                for name, program in self._programs.items()
            }

    with Opened(OBJECT) as opened:
        found = opened.programs()
    assert len(found) > 50
    assert not [code for code in found.values() if KEEP in code or RELEASE in code]
    for name, code in uprobes().items():
        assert found[name].count(call) >= 2
        assert len(found[name]) == len(code)
