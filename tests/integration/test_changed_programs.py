"""A process that runs another program by the time it gets probes."""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from child import Child, wait_for
from hostile import Pretended, compiled, pretended
from pgtrace.errors import TargetError
from pgtrace.libbpf import btf, uprobes
from pgtrace.libbpf.objects import Object
from pgtrace.postgres import binary, program
from pgtrace.tracing.tracer import trace

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="becomes other users: needs root")

BREAKPOINT = b"\xcc"
FUNCTIONS = ("AbortCurrentTransaction", "pgstat_report_activity", "pgstat_report_query_id")
PROBE_TYPES = (
    pytest.param("multi", marks=pytest.mark.kernel(">= 6.6")),
    pytest.param("single", marks=pytest.mark.kernel(">= 5.15")),
    pytest.param("of libbpf", marks=pytest.mark.kernel(">= 5.15")),
)


@pytest.fixture(params=PROBE_TYPES)
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How probes are attached."""
    if request.param != "multi":
        monkeypatch.setattr(uprobes, "has_multi", lambda: False)
    if request.param == "of libbpf":
        monkeypatch.setattr(btf, "has_cookies", lambda: False)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Pretended]:
    """With another program beside it, which is in no way but by its inode another."""
    with pretended(compiled(tmp_path / "postgres", changes=True)) as place:
        shutil.copy(place.program, place.place / "other")
        yield place


def places(file: Path) -> set[int]:
    """Offsets into which a probe may go."""
    found = {binary.probe_offset(file, name) for name in FUNCTIONS}
    found |= {site.offset for site in binary.sites(file)}
    return {offset for offset in found if offset}


def broken_into(process: Child) -> set[int]:
    """Offsets at which a process has a breakpoint that its program has not."""
    file = Path(f"/proc/{process.pid}/exe")
    with Path(f"/proc/{process.pid}/mem").open("rb", buffering=0) as memory:
        code = file.read_bytes()
        found = set()
        for line in Path(f"/proc/{process.pid}/maps").read_text().splitlines():
            addresses, rights, at, _, _, *name = line.split(maxsplit=5)
            if name != [str(file.readlink())] or "x" not in rights:
                continue
            start, end = (int(address, 16) for address in addresses.split("-"))
            first = int(at, 16)
            for offset in places(file):
                if first <= offset < first + end - start:
                    there = os.pread(memory.fileno(), 1, start + offset - first)
                    assert there in {BREAKPOINT, code[offset : offset + 1]}
                    found |= {offset} if there == BREAKPOINT else set()
    return found


def others(server: Pretended) -> Child:
    """Another process of the same program."""
    child = Child(server.program, cwd=server.place)
    assert child.line() == "ready\n"
    return child


def test_no_memory_of_it_is_taken_for_that_of_the_program_before(
    server: Pretended, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one that is setuid, a place that another program chose would be shown as a query."""
    looked = program.look

    def look(*arguments: Any) -> program.Known:
        found = looked(*arguments)
        process.send(signal.SIGUSR1)
        assert process.line() == "ready\n"
        return found

    with server.running() as process:
        assert binary.variable_address(process.pid, "debug_query_string")
        monkeypatch.setattr(program, "look", look)
        with pytest.raises(TargetError, match=f"Process {process.pid} runs another program"):
            binary.variable_address(process.pid, "debug_query_string")


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize("queries", ["full", "light"])
def test_what_a_process_runs_by_then_gets_no_probe(
    server: Pretended, monkeypatch: pytest.MonkeyPatch, queries: str
) -> None:
    """But those that run what it ran do: other servers of the same binary lack nothing. In the
    light tier it goes at once: of these here none is traced, to show anything."""
    changed: list[Child] = []
    reached: set[int] = set()

    def once_changed(true: Callable[..., None]) -> Callable[..., None]:
        def attach(*arguments: object, **settings: bool) -> None:
            if not changed:
                changed.append(process)
                process.send(signal.SIGUSR1)
                assert process.line() == "ready\n"
                assert Path(f"/proc/{process.pid}/exe").samefile(server.place / "other")
            true(*arguments, **settings)
            reached.update(broken_into(same))

        return attach

    for name in "attach_places", "attach_usdt":
        monkeypatch.setattr(Object, name, once_changed(getattr(Object, name)))
    with server.running() as process, others(server) as same:
        with trace(process.pid, queries=queries, probe_type="tracepoint", as_owner=False):
            assert changed
            assert broken_into(process) == set()
            assert reached
            assert bool(broken_into(same)) == (queries == "full")
            opened = {each.resolve() for each in Path("/proc/self/fd").iterdir()}
            assert not {server.program, server.place / "other"} & opened
        wait_for(lambda: not broken_into(same))
