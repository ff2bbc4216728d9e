"""The capture's file: written whole or not at all, and refused in words when it is no good."""

import io
import json
import os
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrace.errors import UsageError
from pgtrace.files import documents, output_file
from pgtrace.model import capture, encoding
from pgtrace.model.capture import (
    Backend,
    Capture,
    Excluded,
    Host,
    Latencies,
    Lost,
    Probes,
    Query,
    Server,
    Total,
)
from pgtrace.model.histogram import Histogram


def some_reads(latencies: list[int], scope: capture.Scope = "query") -> capture.Io:
    histogram = Histogram()
    for ns in latencies:
        histogram.add(ns)
    return capture.Io(
        source="device",
        pattern="random",
        size="1",
        scope=scope,
        bytes=histogram.count * 8192,
        blocks=histogram.count,
        device_bytes=4096,
        latency=histogram.to_data(),
    )


def some_capture(latencies: list[int], text: str | None = "select $1") -> Capture:
    reads = [some_reads(latencies)]
    query = Query(
        text, "simple", 1, 0, Latencies(1, 9, 9, 9, "ns", [(9, 10, 1)]), reads, query_id=-5
    )
    backend = Backend(5167, "client backend", "digoal", "postgres", None, reads, queries=[query])
    return Capture(
        started="2026-01-31T12:00:00.000000Z",
        duration_s=10.0,
        host=Host("6.1", 2),
        server=Server("15.18", 1, "/data"),
        probes=Probes("libbpf", "fentry", "usdt"),
        lost=Lost(),
        totals={},
        backends=[backend],
    ).add_up()


CAPTURE = some_capture([9000, 9000, 80_000])


def names(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


def stored(**changes: Any) -> bytes:
    return json.dumps(json.loads(encoding.encode(CAPTURE)) | changes).encode()


@given(
    st.lists(st.integers(0, 2**41), max_size=20), st.none() | st.text(st.characters(codec="utf-8"))
)
def test_what_is_written_is_what_is_read(
    tmp_path_factory: pytest.TempPathFactory, latencies: list[int], text: str | None
) -> None:
    path = tmp_path_factory.getbasetemp() / "round-trip.json"
    taken = some_capture(latencies, text)
    documents.write(taken, path, force=True)
    assert documents.load(path) == taken


def test_the_file_begins_with_its_schema_and_has_a_bucket_a_line() -> None:
    text = encoding.encode(CAPTURE).decode()
    assert text.startswith('{\n  "schema": "pgtrace.capture/2",\n  "started": ')
    assert text.endswith("}\n")
    assert [line.strip(" ,") for line in text.splitlines() if "[8704" in line] == [
        "[8704, 9216, 2]"
    ] * 2


@given(st.text(st.characters(codec="utf-8")))
def test_texts_that_look_like_buckets_are_left_alone(text: str) -> None:
    taken = some_capture([], "[\n  1,\n  2,\n  3\n]" + text)
    assert json.loads(encoding.encode(taken))["backends"][0]["queries"][0]["text"] == (
        "[\n  1,\n  2,\n  3\n]" + text
    )


def test_totals_are_the_sum_of_the_backends_reads() -> None:
    taken = some_capture([1, 2])
    apart = {"failed": {"read": Excluded(3)}, "short": {"read": Excluded(4)}}
    taken.backends.append(Backend(2, io=[some_reads([40], "outside")], **apart))
    totals = taken.add_up().totals
    assert totals == {"read": Total(3, 24576, 3, 8192, 43, failed=3, short=4)}
    assert taken.probes.shortest_ns == 1


def test_the_file_is_for_its_owner_alone_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    documents.write(CAPTURE, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert names(tmp_path) == ["a.json"]


def test_a_file_is_overwritten_by_force_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("precious")
    for refused in (output_file.check, lambda p: documents.write(CAPTURE, p)):
        with pytest.raises(UsageError) as error:
            refused(path)
        assert str(error.value) == f"{path} exists; --force overwrites it"
    assert path.read_text() == "precious"
    output_file.check(path, force=True)
    documents.write(CAPTURE, path, force=True)
    assert documents.load(path) == CAPTURE


def test_a_file_made_in_the_last_moment_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    fsync = os.fsync

    def slow(handle: int) -> None:
        fsync(handle)
        path.write_text("somebody else's")

    monkeypatch.setattr(os, "fsync", slow)
    with pytest.raises(UsageError, match="exists"):
        documents.write(CAPTURE, path)
    assert path.read_text() == "somebody else's"
    assert names(tmp_path) == ["a.json"]


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match=r"a\.json cannot be written: No space left on device"):
        documents.write(CAPTURE, path, force=True)
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.json"]


def test_file_systems_without_hard_links_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    documents.write(CAPTURE, tmp_path / "a.json")
    assert documents.load(tmp_path / "a.json") == CAPTURE


@pytest.mark.parametrize("force", [False, True])
def test_links_are_not_followed(tmp_path: Path, force: bool) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(UsageError, match="is a symbolic link"):
        documents.write(CAPTURE, tmp_path / "link", force=force)
    assert names(tmp_path) == ["link"]


def test_devices_are_written_to_and_never_replaced() -> None:
    output_file.check("/dev/null")
    documents.write(CAPTURE, "/dev/null", force=True)
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    with pytest.raises(UsageError, match="/dev/full cannot be written: No space left"):
        documents.write(CAPTURE, "/dev/full")


def test_places_that_cannot_be_written_are_told_before_tracing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none: no such directory"):
        output_file.check(tmp_path / "none" / "a.json")
    with pytest.raises(UsageError, match="is not a file"):
        output_file.check(tmp_path, force=True)
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be written: Not a directory"):
        output_file.check(tmp_path / "file" / "a.json")
    with pytest.raises(UsageError, match="cannot be made there"):
        output_file.check("/proc/self/a.json")
    with pytest.raises(UsageError, match="cannot be written"):
        output_file.check(tmp_path / ("x" * 300))


def test_a_capture_can_come_through_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = SimpleNamespace(buffer=io.BytesIO(encoding.encode(CAPTURE)))
    monkeypatch.setattr("sys.stdin", pipe)
    assert documents.load("-") == CAPTURE


def test_keys_of_a_later_version_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(stored(weather="fine"))
    assert documents.load(tmp_path / "a.json") == CAPTURE


BACKENDS = json.loads(encoding.encode(CAPTURE))["backends"]


def damaged(**changes: Any) -> list[Any]:
    """The backends, with the first reads changed."""
    backend = json.loads(json.dumps(BACKENDS[0]))
    backend["io"][0] |= changes
    return [backend]


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"{", "ends too early: it was cut, or is still written"),
        (encoding.encode(CAPTURE)[:-3], "ends too early"),
        (b"\x7fELF", "is not JSON"),
        (b"hello", "is not JSON: JSON is malformed"),
        (stored() + b"{}", "is not JSON"),
        (b"[build-system]\nrequires = []\n", "is not JSON: JSON is malformed"),
        (b"[1]", "is not a capture: it is JSON of another program"),
        (b"{}", "is not a capture: it is JSON of another program"),
        (b'{"schema": 5}', "is not a capture: it is JSON of another program"),
        (stored(schema="x/1"), "is not a capture: it is JSON of another program"),
        (stored(schema="pgtrace.capture/3"),
         "is a pgtrace.capture/3; this pgtrace reads /1 and /2: upgrade pgtrace"),
        (stored(schema="pgtrace.capture/1"), "is not a whole capture: it has no "),
        (stored(schema="pgtrace.lab/1"), "is the result of a lab experiment, not a capture"),
        (stored(duration_s="long"),
         "is not a whole capture: Expected `float`, got `str` - at `$.duration_s`"),
        (stored(duration_s=-1), "-1.0 cannot be - at `$.duration_s`"),
        (stored(started="yesterday"), "Invalid isoformat string: 'yesterday'"),
        (stored(totals={"read": {"count": 4}}),
         "totals.read.count is 4, but the backends' sum is 3"),
        (stored(totals={"read": json.loads(stored())["totals"]["read"] | {"total_ns": 1}}),
         "totals.read.total_ns is 1, but the backends' sum is 98000"),
        (stored(totals={}), "totals are of [], operations are ['read']"),
        (stored(backends=[{"pid": "1"}]), "Expected `int`, got `str` - at `$.backends[0].pid`"),
        (stored(backends=damaged(latency={"sum": -1})),
         "-1 cannot be - at `$.backends[0].io[0].latency.sum`"),
        (stored(backends=damaged(latency={"max": 10**40})),
         "at `$.backends[0].io[0].latency.max`"),
        (stored(backends=damaged(source="moon")),
         "Invalid enum value 'moon' - at `$.backends[0].io[0].source`"),
        (stored(backends=damaged(latency={"buckets": [[8192, 8700, 3]]})),
         "[8192, 8700) is not a bucket of 16 per power of two"),
        (stored(backends=[BACKENDS[0] | {"queries": [BACKENDS[0]["queries"][0] | {
            "latency": {"buckets": [[5, 7, 1]]}}]}]), "[5, 7) is not a bucket"),
        (b'{"schema":"pgtrace.capture/2","x":' + b"[" * 10**5, "is not a whole capture"),
        (b'{"schema":"pgtrace.capture/2","started":"\xff"}', "is not a whole capture"),
    ],
)  # fmt: skip
def test_what_is_no_capture_is_refused_in_words(tmp_path: Path, raw: bytes, message: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(raw)
    with pytest.raises(UsageError) as error:
        documents.load(path)
    assert str(error.value).startswith(f"{path} ")
    assert message in str(error.value)


def test_files_that_cannot_be_read_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"a\.json: no such file"):
        documents.load(tmp_path / "a.json")
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        documents.load(tmp_path)
    with pytest.raises(UsageError, match="cannot be read"):
        documents.load("a\0b")


@given(st.binary(max_size=60), st.integers(0, 3000))
def test_damage_is_refused_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, at: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.json"
    whole = stored()
    path.write_bytes(whole[:at] + noise + whole[at + len(noise) :])
    try:
        taken = documents.load(path)
    except UsageError:
        return
    encoding.encode(taken)


TEXT = encoding.encode(CAPTURE)
KEYS = [match.start() for match in re.finditer(rb'(?<= )"\w+": ', TEXT)]


def again(at: int) -> Iterator[bytes]:
    """The text with the key that begins there once more before it, and in the same layout."""
    name, indent = TEXT[at:].partition(b":")[0], TEXT[:at].rpartition(b"\n")[2]
    for value in b"[]", b"{}", b"null", b"0":
        text = TEXT[:at] + name + b": " + value + b",\n" + indent + TEXT[at:]
        assert json.loads(text) == json.loads(TEXT)
        yield text


def outcome(path: Path) -> Capture | str:
    """What is read, or why it is not."""
    try:
        return documents.load(path)
    except UsageError as error:
        return str(error)


@pytest.mark.parametrize("at", KEYS)
def test_a_key_that_is_there_twice_is_refused_wherever_it_is(tmp_path: Path, at: int) -> None:
    path, name = tmp_path / "a.json", TEXT[at:].split(b'"')[1].decode()
    for text in again(at):
        path.write_bytes(text)
        assert outcome(path) == f"{path} is not to be trusted: it has the key {name!r} twice"


def test_a_key_that_is_there_twice_is_found_among_many_at_once(tmp_path: Path) -> None:
    """Each was looked for among all before it: a few megabytes took hours."""
    path = tmp_path / "capture.json"
    keys = ",".join(f'"{number}":0' for number in range(40_000))
    path.write_text(f'{{{keys},"39999":1}}')
    began = time.process_time()
    assert outcome(path) == f"{path} is not to be trusted: it has the key '39999' twice"
    assert time.process_time() - began < 2


HASHED_ALIKE = [number * ((1 << 61) - 1) for number in range(20, 40_000)]
"""CPython's hash of an int is its remainder by that."""
NO_QUERY = {"text": None, "protocol": "simple", "calls": None, "errors": None, "latency": None}


@pytest.mark.parametrize("field", ["powers", "query_id"])
def test_numbers_that_have_one_hash_are_not_put_into_tables(tmp_path: Path, field: str) -> None:
    """A table of them takes a time by their number's square."""
    path, whole = tmp_path / "capture.json", json.loads(TEXT)
    if field == "powers":
        powers = dict.fromkeys(map(str, HASHED_ALIKE), 1)
        io = {"operation": "read", "source": "device", "count": 1, "bytes": 1, "total_ns": 1}
        whole["intervals"] = [{"second": 0, "costs": [], "io": [io | {"powers": powers}]}]
    else:
        whole["backends"][0]["queries"] = [NO_QUERY | {"query_id": n} for n in HASHED_ALIKE[:9]]
    path.write_text(json.dumps(whole))
    began = time.process_time()
    assert field in str(outcome(path))
    assert time.process_time() - began < 2


def test_what_encode_writes_is_known_by_its_text_whatever_is_in_its_buckets() -> None:
    assert encoding.is_text_of(CAPTURE, TEXT)
    assert encoding.is_text_of(CAPTURE, TEXT.replace(b"[8704, 9216, 2]", b"[ 8704,9216, 25]"))
    for other in TEXT[:-1], TEXT + b" ", TEXT.replace(b"[8704, 9216, 2]", b'["x"]'):
        assert not encoding.is_text_of(CAPTURE, other)


PARTS = [b"", b"}", b"]", b",", b'"', b"\\", b"\n", b"\xff", b"-1", b"9" * 5000, b"NaN", b"[[[",
         b'"count": 1,', b'"buckets": [],', b'"queries": [],']  # fmt: skip


@given(st.data())
def test_it_makes_no_difference_that_keys_of_own_texts_are_not_looked_through(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Whatever is changed in it: the outcome is as for the text of another program."""
    path = tmp_path_factory.getbasetemp() / "changed.json"
    parts = st.sampled_from(PARTS)
    text = TEXT
    for _ in range(data.draw(st.integers(1, 2))):
        at = data.draw(st.sampled_from(KEYS) | st.integers(0, len(text)))
        text = text[:at] + data.draw(parts) + text[at + data.draw(st.integers(0, 3)) :]
    path.write_bytes(text)
    found = outcome(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents, "is_text_of", lambda *_: False)
        assert found == outcome(path)
