"""What others write, in the shapes that hurt: nothing but pgtrace's own words comes of it.

Mutations of a real server's binary are in test_elf.py, of literals in test_statement.py.
scripts/fuzz tries 100,000 cases of each. What it finds goes into tests/corpus, as it was read.
"""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_lab_result import RESULT

from captures import HOSTILE, some_backend, some_capture
from fuzzing import CORPUS, corpus, fuzzed
from pgtrace.errors import UsageError
from pgtrace.lab import result_file, result_report
from pgtrace.linux import in_time
from pgtrace.model import encoding
from pgtrace.model.capture import Capture
from pgtrace.postgres import discovery, elf, proc, program, titles
from pgtrace.postgres.redaction import redact
from pgtrace.reporters.terminal import capture_report
from pgtrace.terminal_text import decode, escape

WORDS = [0, 1, 3, 4, 8, 127, 128, 1 << 16, 1 << 31, (1 << 32) - 1, 1 << 40, 1 << 63, (1 << 64) - 1]
CAPTURE = json.loads(encoding.encode(some_capture(some_backend())))
OWN = proc.process(os.getpid())
LAB_RESULT = json.loads(encoding.encode(RESULT))


def words(size: int) -> st.SearchStrategy[bytes]:
    """Numbers of so many bytes, those that overflow before all others."""
    numbers = st.sampled_from(WORDS) | st.integers(0, (1 << 64) - 1)
    return numbers.map(lambda number: number.to_bytes(8, "little")[:size])


# Each takes the bytes of a file, or what the kernel or a server said


def feed_elf(data: bytes) -> None:
    """As the child that parses a binary, and its parent."""
    handle, said = os.memfd_create("fuzzed"), []
    try:
        os.write(handle, data)
        with suppress(Exception):  # which ends the child
            program.tell(handle, frozenset({"main"}), said.append)
    finally:
        os.close(handle)
    known = program.understood(frozenset({"main"}), b"".join(said))
    assert known.contents.problem or known.contents.elfclass
    assert sum(map(len, said)) < 1 << 20


def feed_notes(data: bytes) -> None:
    found: list[elf.Site] = []
    with suppress(Exception):  # as in elf.contents(), which then says that they make no sense
        found.extend(elf._notes(data, 1 << 20, []))
    assert len(found) <= len(data) // 12


def feed_titles(data: bytes) -> None:
    said = decode(data)
    for each in said, f"postgres: {said}":
        assert titles.parse(each, None) is not None
        titles.parse(each, said[:20])


def feed_lock_file(data: bytes) -> None:
    def read(_pid: int, name: str, _uid: int, most: int = 4096) -> bytes:
        if name != "postmaster.pid":
            raise FileNotFoundError
        return data[:most]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(in_time, "read", read)
        for each in "_cluster_name", "_block_size":  # which look elsewhere
            patch.setattr(discovery, each, lambda *_: None)
        server = discovery._server(OWN)
        assert server.port is None or 0 < server.port < 1 << 16
        escape(server.socket_directory or "")
        assert discovery._is_postmaster(OWN) in {True, False}


def feed_document(data: bytes) -> None:
    """What is not refused in words can be shown, and written again."""
    path = Path(f"/dev/shm/pgtrace-fuzz-{os.getpid()}")
    path.write_bytes(data)
    try:
        found = result_file.load_any(path)
    except UsageError:
        return
    finally:
        path.unlink()
    encoding.encode(found)
    if isinstance(found, Capture):
        capture_report.render(found)
    else:
        result_report.render(found)


def feed_statement(data: bytes) -> None:
    said = decode(data)
    for cut in False, True:
        once = redact(said, cut=cut)
        assert redact(once, cut=cut) == once
        escape(once)


FEED: dict[str, Callable[[bytes], None]] = {
    "elf": feed_elf,
    "notes": feed_notes,
    "titles": feed_titles,
    "postmaster.pid": feed_lock_file,
    "captures": feed_document,
    "lab_results": feed_document,
    "statements": feed_statement,
}


@pytest.mark.parametrize("file", corpus(), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_the_corpus(file: Path) -> None:
    FEED[file.parent.name](file.read_bytes())


def test_the_corpus_has_all_subjects() -> None:
    assert {path.name for path in CORPUS.iterdir() if path.is_dir()} == FEED.keys()
    assert {file.parent.name for file in corpus()} == FEED.keys()


@fuzzed
@given(st.lists(words(8) | words(4) | words(2) | st.binary(max_size=16), max_size=40))
def test_elf(parts: list[bytes]) -> None:
    """Headers of numbers; test_elf.py changes those of a real binary."""
    feed_elf(b"\x7fELF\x02\x01\x01" + bytes(9) + b"".join(parts))


NOTES = st.tuples(
    words(4), words(4), words(4), st.sampled_from([b"stapsdt\0", b"GNU\0", b""]), st.binary()
)


@fuzzed
@given(st.lists(NOTES.map(b"".join), max_size=8).map(b"".join) | st.binary())
def test_notes(data: bytes) -> None:
    feed_notes(data)


TITLE_WORDS = [b"walsender", b"checkpointer", b"parallel worker for PID 1", b"[local]", b"idle",
               b"autovacuum worker", b"bgworker:", b"::1(5)", b": ", b" ", b"\xff", b"(", b"(-1)",
               b"io worker 9999999999999999999", b"\x1b[2J"]  # fmt: skip


@fuzzed
@given(st.lists(st.sampled_from(TITLE_WORDS) | st.binary(max_size=9), max_size=9).map(b" ".join))
def test_titles(data: bytes) -> None:
    feed_titles(data)


LINES = st.sampled_from([b"", b"1", b"-1", b"5432", b"0", b"65536", b"9" * 4300, b"\xd9\xa1"])


@fuzzed
@given(st.lists(LINES | st.binary(max_size=30), max_size=9).map(b"\n".join))
def test_lock_files(data: bytes) -> None:
    feed_lock_file(data)


SCALARS = st.sampled_from(
    [None, True, -1, 0, 1, 1 << 63, 1 << 64, 1 << 200, -0.5, 1e308, "", "x", HOSTILE, "a" * 5000]
)
JUNK = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


@st.composite
def changed(draw: st.DrawFn, document: dict[str, Any]) -> bytes:
    """A whole document in which some members are others, gone, or there again."""
    copy = deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(copy))
        holder, key = places[draw(st.integers(0, len(places) - 1))]
        how = draw(st.sampled_from(["other", "other", "gone", "again"]))
        if how == "gone":
            del holder[key]
        elif how == "again" and isinstance(holder, list):
            holder.append(deepcopy(holder[key]))
        else:
            holder[key] = draw(JUNK)
    return json.dumps(copy).encode()


def _places(value: Any) -> Any:
    if isinstance(value, (dict, list)):
        for key, member in list(value.items() if isinstance(value, dict) else enumerate(value)):
            yield value, key
            yield from _places(member)


@fuzzed
@given(changed(CAPTURE))
def test_captures(data: bytes) -> None:
    feed_document(data)


@fuzzed
@given(changed(LAB_RESULT))
def test_lab_results(data: bytes) -> None:
    feed_document(data)


TOKENS = [b"'", b"''", b"E'", b"$$", b"$q$", b"/*", b"*/", b"--", b"\n", b"\\", b'"', b"u&'", b"1e",
          b"0x", b"$1", b"select", b"set", b"password", b"\xff", b"\xc3", b"::", b"."]  # fmt: skip


@fuzzed
@given(st.lists(st.sampled_from(TOKENS) | st.binary(max_size=4), max_size=30).map(b"".join))
def test_statements(data: bytes) -> None:
    feed_statement(data)
