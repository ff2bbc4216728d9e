"""Where time went as stacks: folded, for speedscope, and as a flame graph on the page."""

import json
import re
from collections import Counter
from types import ModuleType

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from captures import HOSTILE, some_backend, some_capture, some_query
from html_page import HtmlPage
from pgtrace.errors import UsageError
from pgtrace.model.capture import Capture, Time
from pgtrace.reporters import folded, speedscope
from pgtrace.reporters.html import capture_page
from pgtrace.reporters.html.flame import flame
from pgtrace.reporters.sections.stacks import stacks
from pgtrace.reporters.sections.time_parts import is_idle
from pgtrace.reporters.view import View
from some_times import MS, probes, spent, times


@given(st.lists(times, max_size=6), st.lists(times, max_size=6), st.text(max_size=30))
@example([spent("cpu", 10**6)], [], " ;")
def test_stacks_have_all_time_once(of_query: list[Time], others: list[Time], text: str) -> None:
    query = some_query(text=text or "x", query_id=5, times=of_query)
    taken = some_capture(
        some_backend(datname="shop", times=[*of_query, *others], queries=[query]), probes=probes()
    )
    sums: Counter[str] = Counter()
    for line in folded.report(taken, View()):
        assert line.count("\n") == 1
        assert line.endswith("\n")
        stack, _, count = line.rstrip("\n").rpartition(" ")
        first, statement, *ends = stack.split(";")
        assert first == "shop"
        assert statement
        assert 1 <= len(ends) <= 3
        sums[";".join(ends)] += int(count)
    busy = [each for each in (*of_query, *others) if not is_idle(each)]
    whole = sum(each.total_ns for each in busy) / 1000
    assert whole - 2 * len(busy) - 2 <= sum(sums.values()) <= whole


@pytest.mark.parametrize("form", [folded, speedscope])
def test_without_times_there_are_no_stacks(form: ModuleType) -> None:
    with pytest.raises(UsageError, match="--time"):
        list(form.report(some_capture(some_backend()), View()))


def demanded(value: object) -> None:
    """What file-format-schema.json demands of a file with a sampled profile: src/lib/
    file-format-spec.ts of speedscope.
    """
    assert isinstance(value, dict)
    assert value["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert value.keys() <= {
        "$schema", "shared", "profiles", "name", "activeProfileIndex", "exporter"
    }  # fmt: skip
    assert [*value["shared"]] == ["frames"]
    frames = value["shared"]["frames"]
    assert all([*frame] == ["name"] and isinstance(frame["name"], str) for frame in frames)
    for profile in value["profiles"]:
        assert profile.keys() == {
            "type", "name", "unit", "startValue", "endValue", "samples", "weights"
        }  # fmt: skip
        assert (profile["type"], profile["unit"]) == ("sampled", "nanoseconds")
        assert isinstance(profile["name"], str)
        assert profile["startValue"] <= profile["endValue"]
        assert len(profile["samples"]) == len(profile["weights"])
        assert all(isinstance(weight, int) for weight in profile["weights"])
        for stack in profile["samples"]:
            assert all(isinstance(n, int) and 0 <= n < len(frames) for n in stack)


@given(st.lists(times, max_size=6), st.lists(times, max_size=6), st.text(max_size=30))
def test_speedscope_has_the_same_stacks(
    of_query: list[Time], others: list[Time], text: str
) -> None:
    query = some_query(text=text or "x", query_id=5, times=of_query)
    taken = some_capture(
        some_backend(datname="shop", times=[*of_query, *others], queries=[query]), probes=probes()
    )
    file = json.loads("".join(speedscope.report(taken, View())))
    demanded(file)
    (profile,) = file["profiles"]
    names = [frame["name"] for frame in file["shared"]["frames"]]
    assert len(set(names)) == len(names)
    found = {
        tuple(names[number] for number in stack): weight
        for stack, weight in zip(profile["samples"], profile["weights"], strict=True)
    }
    assert found == stacks(taken)
    busy = [each for each in (*of_query, *others) if not is_idle(each)]
    assert sum(profile["weights"]) == profile["endValue"] == sum(t.total_ns for t in busy)
    assert profile["weights"] == sorted(profile["weights"], reverse=True)


RECT = re.compile(
    r'<rect class="(\w+)" x="([\d.]+)" y="(\d+)" width="([\d.]+)" height="17">'
    r"<title>([^<]*)</title></rect>"
)


def frames(capture: Capture) -> list[tuple[str, float, int, float, str]]:
    """Of the flame graph: class, left, row, right, what it tells."""
    return [
        (colour, float(x), int(y) // 18, float(x) + float(width), told)
        for colour, x, y, width, told in RECT.findall(flame(capture))
    ]


def test_the_flame_graph_has_a_row_for_each_frame_of_a_stack() -> None:
    """What took longest is on the left; a worker is beside what its leader did."""
    hostile = f"select '{HOSTILE}'"
    query = some_query(
        text=hostile,
        times=[
            spent("cpu", 500 * MS),
            spent("sleep", 300 * MS, ("Lock", "relation")),
            spent("cpu", 200 * MS, performed_by="parallel worker"),
        ],
    )
    idle = spent("sleep", 10**12, ("Client", "ClientRead"), scope="outside")
    backend = some_backend(datname="IO", times=[*query.times, idle], queries=[query])
    capture = some_capture(backend, probes=probes())
    found = frames(capture)
    assert [(colour, row, told) for colour, _, row, _, told in found if row != 2] == [
        ("rest", 0, "all processes, without waits for work: 1.00 s, 100 %"),
        ("rest", 1, "IO: 1.00 s, 100 %"),
        ("s2", 3, "CPU: 500 ms, 50 %"),
        ("s3", 3, "Lock: 300 ms, 30 %"),
        ("s3", 4, "relation: 300 ms, 30 %"),
        ("rest", 3, "parallel worker: 200 ms, 20 %"),
        ("s2", 4, "CPU: 200 ms, 20 %"),
    ]
    (statement,) = (told for *_, row, _, told in found if row == 2)
    assert "<" not in statement
    assert HtmlPage(capture_page.render(capture)).text.count("all processes, without waits") == 2
    assert flame(some_capture(some_backend())) == ""


@given(st.lists(st.tuples(st.text(max_size=9), times), max_size=40))
def test_frames_lie_within_those_above_and_are_few(found: list[tuple[str, Time]]) -> None:
    """Those too narrow to be seen are one."""
    queries = [
        some_query(text=f"{text} {number}", query_id=number + 1, times=[time])
        for number, (text, time) in enumerate(found)
    ]
    backend = some_backend(times=[time for _, time in found], queries=queries)
    drawn = frames(some_capture(backend, probes=probes()))
    for _, left, row, right, _ in drawn:
        assert -0.1 <= left <= right <= 960.1
        assert right - left >= 2.4
        if row:
            assert any(
                above == row - 1 and first <= left + 0.15 and right <= last + 0.15
                for _, first, above, last, _ in drawn
            )
    rows = Counter(row for _, _, row, _, _ in drawn)
    assert all(number <= 960 / 3 for number in rows.values())
