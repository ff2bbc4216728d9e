"""Programs whose headers mislead: parsed to an end, and told within bounds, or not at all."""

import os
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from elftools.elf.elffile import ELFFile
from hypothesis import given
from hypothesis import strategies as st

from fuzzing import fuzzed
from hostile import compiled
from pgtrace.lab.core.private_cluster import find_bindir
from pgtrace.postgres import elf, program

NAMES = ["PostmasterMain", "AbortCurrentTransaction", "debug_query_string", "malloc", "no_such"]
MOST_SECONDS = 5.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """PostgreSQL's, if it is installed."""
    try:
        return find_bindir() / "postgres"
    except Exception:
        return compiled(tmp_path_factory.mktemp("elf") / "postgres")


def test_it_finds_what_another_reader_finds(server: Path) -> None:
    with server.open("rb") as stream:
        read = ELFFile(stream)
        symbols = list(read.get_section_by_name(".dynsym").iter_symbols())
        expected = {
            each.name: each["st_value"]
            for each in symbols[:: max(len(symbols) // 250, 1)]
            if each["st_shndx"] != "SHN_UNDEF"
        }
        names = {each.name for each in symbols[:: max(len(symbols) // 250, 1)] if each.name}
        found = elf.contents(stream.fileno(), names)
        assert found.addresses == expected
        assert found.entry == read.header["e_entry"]


@pytest.mark.parametrize("style", ["gnu", "sysv"])
@pytest.mark.parametrize("stripped", ["nothing", "all", "dynamic"])
def test_symbols_by_every_table(tmp_path: Path, style: str, stripped: str) -> None:
    """By both hash tables; and by the debugger's, of what was not exported."""
    source, binary = tmp_path / "a.c", tmp_path / "a"
    names = [f"function_{number}" for number in range(50)]
    source.write_text("".join(f"void {n}(void) {{}}\n" for n in names) + "int main(){return 0;}")
    exported = [] if stripped == "dynamic" else ["-rdynamic"]
    subprocess.run(
        ["gcc", *exported, f"-Wl,--hash-style={style}", "-o", binary, source], check=True
    )
    if stripped == "all":
        subprocess.run(["strip", binary], check=True)
    with binary.open("rb") as stream:
        table = ELFFile(stream).get_section_by_name(".symtab" if stripped != "all" else ".dynsym")
        expected = {n: table.get_symbol_by_name(n)[0]["st_value"] for n in names}
        found = elf.contents(stream.fileno(), [*names, "none", "puts"])
    assert found.addresses == expected


@pytest.fixture(scope="module")
def copy(server: Path) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """A server's binary to change, and where its headers and tables are: offset, size."""
    handle = os.memfd_create("mutated")
    patch = pytest.MonkeyPatch()
    patch.setattr(elf, "MOST_BYTES", 4096)  # the version is not what changes
    with server.open("rb") as stream, os.fdopen(os.dup(handle), "wb") as to:
        shutil.copyfileobj(stream, to)
        read = ELFFile(stream)
        places = [
            (0, 64),
            (read["e_phoff"], read["e_phnum"] * 56),
            (read["e_shoff"], read["e_shnum"] * 64),
        ]
        for name in ".dynamic", ".gnu.hash", ".note.stapsdt", ".shstrtab", ".dynsym":
            if section := read.get_section_by_name(name):
                places.append((section["sh_offset"], min(section["sh_size"], 512)))
    yield handle, places
    patch.undo()
    os.close(handle)


@st.composite
def changes(draw: st.DrawFn) -> tuple[int, int, bytes]:
    """Which place, where in it, and what is written there."""
    words = [0, 1, 0x7F, 1 << 16, 1 << 31, (1 << 32) - 1, 1 << 40, 1 << 62, 1 << 63, (1 << 64) - 1]
    number = draw(st.sampled_from(words) | st.integers(0, (1 << 64) - 1))
    data = struct.pack("=Q", number)[: draw(st.sampled_from([1, 2, 4, 8]))]
    return draw(st.integers(0, 7)), draw(st.integers(0, 1 << 16)), data


@fuzzed
@given(st.lists(changes(), min_size=1, max_size=4))
def test_mutations(
    copy: tuple[int, list[tuple[int, int]]], changed: list[tuple[int, int, bytes]]
) -> None:
    """What a child does, here: an exception, or what can be told; and that is checked."""
    handle, places = copy
    before = []
    for place, offset, data in changed:
        start, size = places[place % len(places)]
        at = start + offset % size
        before.append((at, os.pread(handle, len(data), at)))
        os.pwrite(handle, data, at)
    said: list[bytes] = []
    began = time.process_time()
    try:
        program.tell(handle, frozenset(NAMES), said.append)
    finally:
        for at, data in reversed(before):
            os.pwrite(handle, data, at)
    assert time.process_time() - began < MOST_SECONDS
    known = program.understood(frozenset(NAMES), b"".join(said))
    assert known.kind == elf.Kind()
    assert known.contents.problem or known.contents.elfclass
    assert sum(map(len, said)) < 1 << 20


@given(st.binary(max_size=200) | st.lists(st.binary(max_size=40), max_size=4).map(b"\n".join))
def test_what_a_child_says_is_checked(said: bytes) -> None:
    """It may have been misled to say anything."""
    try:
        known = program.understood(frozenset(), said)
    except program.NotLookedAtError:
        return
    assert known.contents.problem


def test_a_child_that_says_too_much() -> None:
    kind = msgspec.json.encode(elf.Kind(True, "15.1"))
    for wrong in (
        {"sites": [{"name": "n" * 300, "offset": 1, "semaphore": None, "arguments": ""}]},
        {"sites": [{"name": "n", "offset": -1, "semaphore": None, "arguments": ""}]},
        {"addresses": {"main": "1"}},
        {"addresses": {"main": -1}},
        {"loads": [[0, 0, 0]] * 1000},
        {"machine": 1 << 80},
    ):
        said = kind + b"\n" + msgspec.json.encode(wrong).replace(b"\n", b"") + b"\n"
        known = program.understood(frozenset(), said)
        assert known.contents.problem
        assert known.kind == elf.Kind(True, "15.1")
    with pytest.raises(program.NotLookedAtError):
        program.understood(frozenset(), b'{"server": true, "version": "15\\u001b[31m"}\n{}\n')


def test_a_file_of_zeros_takes_no_memory(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(4 << 30)
    began = time.monotonic()
    assert program.look(tmp_path / "sparse").kind == elf.Kind()
    assert time.monotonic() - began < MOST_SECONDS


def test_one_look_for_all(server: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child costs milliseconds: one for each binary, not for each question."""
    looks = []
    told = program.unprivileged.told
    monkeypatch.setattr(
        program.unprivileged, "told", lambda *each: looks.append(each) or told(*each)
    )
    monkeypatch.setattr(program, "_known", {})
    for name in (None, "debug_query_string", "application_name", "PortalRun"):
        program.look(server, name)
    assert len(looks) == 1
    program.look(server, "no_such_symbol")
    program.look(server, "no_such_symbol")
    assert len(looks) == 2
