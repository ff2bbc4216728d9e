"""Every number that a process may have for its wait has a name, whatever the version."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrace.postgres import wait_events
from pgtrace.postgres.versions import SUPPORTED
from pgtrace.postgres.wait_events import WaitEvent, name

FOLDER = Path(wait_events.__file__).parent / "wait_event_names"
LINE = re.compile(r"(0[1-9a]00[0-9a-f]{4}) ([A-Z][A-Za-z]+) (\w+)")


def lines(major: int) -> list[tuple[int, str, str]]:
    _, *rest = (FOLDER / f"{major}.txt").read_text().splitlines()
    found = [LINE.fullmatch(line) for line in rest]
    return [(int(line[1], 16), line[2], line[3]) for line in found if line]


@given(st.one_of(st.sampled_from(SUPPORTED), st.integers()), st.integers(0, 2**32 - 1))
def test_every_number_has_a_name(major: int, info: int) -> None:
    found = name(major, info)
    assert (found is None) == (info == 0)
    if found:
        assert all(found), found
        assert " " not in found.type


@given(st.sampled_from(SUPPORTED), st.integers(0, 2**32 - 1))
def test_an_event_that_nobody_knows_is_its_number(major: int, info: int) -> None:
    """Unless it is in the table, what is said gives the number back."""
    found = name(major, info)
    known = {number for number, _, _ in lines(major)}
    if found and info & 0xFF00FFFF not in known:
        kind = "tranche" if found.type == "LWLock" else "event"
        assert found.event == f"{kind} {info & 0xFFFF}"


@pytest.mark.parametrize(
    ("major", "info", "expected"),
    [
        (15, 0x03000000, ("Lock", "relation")),
        (16, 0x0300000B, ("Lock", "applytransaction")),
        (15, 0x0300000B, ("Lock", "event 11")),
        (18, 0x01000001, ("LWLock", "ShmemIndex")),
        (18, 0x01001234, ("LWLock", "tranche 4660")),
        (18, 0x04000000, ("BufferPin", "BufferPin")),
        (19, 0x04000000, ("Buffer", "BufferCleanup")),
        (14, 0x07000000, ("Extension", "Extension")),
        (17, 0x07000007, ("Extension", "event 7")),
        (17, 0x0B000002, ("InjectionPoint", "event 2")),
        (16, 0x0B000002, ("0x0B", "event 2")),
        (18, 0x0FAB0001, ("0x0F", "event 1")),
        (18, 0x03AB0000, ("Lock", "relation")),
        (18, 0x00010000, ("0x00", "event 0")),
        (20, 0x0A000000, ("IO", "event 0")),
        (13, 0x04000000, ("BufferPin", "event 0")),
    ],
)
def test_names(major: int, info: int, expected: tuple[str, str]) -> None:
    """Among them: of a later version, of an extension, with bits that say nothing, of no class."""
    assert name(major, info) == WaitEvent(*expected)


@pytest.mark.parametrize("major", SUPPORTED)
def test_the_table_of_a_version_is_whole(major: int) -> None:
    """In each class numbers begin at 0 and have no gap, but for LWLocks; no name is there twice."""
    found = lines(major)
    text = (FOLDER / f"{major}.txt").read_text()
    assert text.startswith(f"# Wait events of PostgreSQL {major}")
    assert len(found) == text.count("\n") - 1, "a line of another form"
    assert found == sorted(found)
    assert len({info for info, _, _ in found}) == len({each[1:] for each in found}) == len(found)
    types: dict[str, list[int]] = {}
    for info, type_, _ in found:
        types.setdefault(type_, []).append(info)
    assert len(types) == len({info >> 24 for info, _, _ in found}) == 9
    assert len(types.pop("LWLock")) > 60
    for numbers in types.values():
        assert [info & 0xFFFF for info in numbers] == list(range(len(numbers)))
    assert {len(types["Extension"]), len(types["Lock"])} <= {1, 11, 12}


def test_only_tables_that_are_asked_for_are_read() -> None:
    """Starting costs nothing for them."""
    told = subprocess.run(
        [
            sys.executable,
            "-c",
            "from pgtrace.postgres import wait_events as w; w.name(17, 1 << 24);"
            "print(w._events.cache_info().currsize)",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.strip() == "1"
