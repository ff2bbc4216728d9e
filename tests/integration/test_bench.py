"""The benchmarks run, and print what they promise. What they measure is judged by people."""

import importlib
import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bpf_left import leftovers

BENCH = Path(__file__).parents[2] / "scripts/bench"
STATISTICS = Path("/proc/sys/kernel/bpf_stats_enabled")
VERDICTS = {"met", "not met", "not decided", "no goal"}


def run(name: str, *arguments: object) -> str:
    command = [BENCH / name, *map(str, arguments)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def figures(name: str, *arguments: object) -> dict[str, Any]:
    printed: dict[str, Any] = json.loads(run(name, *arguments, "--json"))
    assert {each["verdict"] for each in printed["ratios"]} <= VERDICTS
    return printed


def test_read_cost() -> None:
    printed = figures("read_cost", "--pairs", 1)
    assert printed["pairs"] == 8
    assert set(printed["tracers"]) == {
        *("empty", "clocks", "pgtrace", "by_file", "bare", "same", "turns", "by_file_turns")
    }
    assert set(printed["bystanders"]) == {"backend_pread", "process_pread", "process_getppid"}
    for each in (printed["tracers"] | printed["bystanders"]).values():
        assert each["untraced_ns"] > 0
        assert each["lower_quartile_ns"] <= each["added_ns"] <= each["upper_quartile_ns"]
    assert [each["goal"] for each in printed["ratios"]] == [0.8, 1.0, 1.8, 1.2, 1.2]
    assert leftovers() == {}


def test_startup() -> None:
    printed = figures("startup", "--rounds", 1)
    for tool in ("pgtrace", "bpftrace"):
        assert 0 < printed["tools"][tool]["seconds"]["median"] < 60
        assert 1 < printed["tools"][tool]["mebibytes"]["median"] < 1000
        assert 0 <= printed["tools"][tool]["seconds_after_end"]["median"] < 60
    assert [each["goal"] for each in printed["ratios"]] == [0.5, 0.5]
    assert leftovers() == {}


@pytest.mark.long
def test_server_cost() -> None:
    load = "--scale", 1, "--workload", "select-only", "--clients", 2
    printed = figures("server_cost", "--rounds", 1, *load)
    goals: dict[str, float | None] = {"full": 1.06, "light": 1.02}
    goals |= {"light, everything": 1.08, "light, time": 1.03}
    floors = "floor of full", "floor of light", "floor of light, time", "least of time"
    goals |= dict.fromkeys(floors)
    assert {each["name"]: each["goal"] for each in printed["ratios"]} == {
        f"{tier}: select-only, 2 clients": goal for tier, goal in goals.items()
    }
    for each in printed["loads"].values():
        assert each["untraced_ns"] > 1000
        assert each["untraced_tps"] > 1
    assert leftovers() == {}


@pytest.mark.alone
@pytest.mark.long
def test_switch_cost() -> None:
    before = STATISTICS.read_text()
    printed = figures("switch_cost", "--rounds", 2, "--scale", 5)
    taken = {name: of_it["median"] for name, of_it in printed["switch_ns"].items()}
    least = taken["least of time"]
    assert 0 < taken["empty programs"] < least < taken["least of time, by statement"]
    assert taken["light, time"] > least
    assert 0 < printed["share"]["light"]["median"] < 1
    passed_by = printed["untraced_ns"]
    assert 0 < passed_by["empty programs"]["median"] < passed_by["light, time"]["median"]
    assert STATISTICS.read_text() == before
    assert leftovers() == {}


@pytest.mark.long
def test_async_read() -> None:
    printed = figures("async_read", "--rounds", 1)
    assert set(printed["tracers"]) == {"clocks", "light", "full", "bpftrace"}
    for each in printed["tracers"].values():
        assert each["untraced_ns"] > 1000
        assert each["lower_quartile_ns"] <= each["added_ns"] <= each["upper_quartile_ns"]
    assert [each["goal"] for each in printed["ratios"]] == [0.8, 1.8, 0.8, 1.8]
    assert leftovers() == {}


@pytest.mark.long
def test_query_cost() -> None:
    printed = figures("query_cost", "--rounds", 1, "--queries", 50)
    assert len(printed["ratios"]) == 24
    assert Counter(each["goal"] for each in printed["ratios"]) == {1.01: 4, 1.08: 8, None: 12}
    assert min(printed["untraced_ns"].values()) > 1000
    assert leftovers() == {}


@pytest.mark.long
def test_program_cost() -> None:
    printed = figures("program_cost", "--rounds", 1)
    assert len(printed["queries"]) == 5 * 3 * 3
    for each in printed["queries"]:
        assert 0 < each["status_ns"]["median"] < each["query_ns"]["median"]
    assert leftovers() == {}


@pytest.mark.long
@pytest.mark.pg("15")
def test_lab_versions() -> None:
    printed = figures("lab_versions", "--rounds", 1)
    assert set(printed["random_block_us"]) == {"15", "17", "18"}
    assert all(each["median"] > 100 for each in printed["random_block_us"].values())
    assert [each["verdict"] for each in printed["ratios"]] == ["not decided"] * 2


@pytest.mark.pg("15")
def test_lab_versions_for_people(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCH)
    bench = importlib.import_module("lab_versions")
    printed = bench.lines(bench.document({15: [[100.0]], 17: [[105.0]], 18: [[140.0]]}))
    assert printed[-2].split() == [
        "17",
        "to",
        "15",
        "1.05",
        "[1.05,",
        "1.05]",
        "goal",
        "within",
        "15%:",
        "not",
        "decided",
    ]
    assert printed[-1].split() == [
        "18",
        "to",
        "15",
        "1.40",
        "[1.40,",
        "1.40]",
        "goal",
        "within",
        "15%:",
        "not",
        "decided",
    ]


def test_clients() -> None:
    printed = run("clients", "--clients", 4, "--times", 25, "--by-relation")
    assert "100 clients: " in printed and "s of CPU for each 1,000" in printed
    assert "lost: nothing" in printed
    assert leftovers() == {}


@pytest.mark.long
def test_for_people() -> None:
    printed = run("startup", "--rounds", 1)
    for words in ("kernel ", "wall time", "peak memory", "[95 % interval]", "not decided"):
        assert words in printed
