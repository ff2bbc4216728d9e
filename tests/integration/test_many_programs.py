"""Many programs that take long to look at: they cost their own user, and nobody else time."""

import json
import os
import resource
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from hostile import UID, compiled, pretended, section
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.postgres import discovery, program
from pgtrace_command import run

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="becomes other users: needs root")

ANOTHER = UID + 1
"""They use up what a user's programs may take, also those of the tests beside this."""
MANY = 20
NOTES = 30 << 20


@pytest.fixture
def attackers(tmp_path: Path) -> Iterator[list[int]]:
    """Postmasters of one user, each with a copy of a program that is all tiny notes."""
    binary = compiled(tmp_path / "postgres")
    data = bytearray(binary.read_bytes())
    section(data, ".note.stapsdt", 0x18, len(data))
    section(data, ".note.stapsdt", 0x20, NOTES)
    binary.write_bytes(data)
    with binary.open("r+b") as file:
        file.truncate(len(data) + NOTES)  # zeros are notes without a name and content
    with ExitStack() as stack:
        yield [
            stack.enter_context(stack.enter_context(pretended(binary, ANOTHER)).running()).pid
            for _ in range(MANY)
        ]


def processor_s() -> float:
    """That children took which have ended, and theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_a_list(cluster: PrivateCluster, attackers: list[int]) -> None:
    before = processor_s()
    done = run("list", "--json")
    assert processor_s() - before < 3 * program.MOST_SECONDS
    assert done.code == 0, done.err
    servers = {each["postmaster_pid"] for each in json.loads(done.out)["servers"]}
    assert cluster.postmaster_pid in servers
    assert not {*attackers} <= servers
    assert f"pgtrace: not listed: servers of user {ANOTHER}, if there are more" in done.err


def test_who_looks_for_a_servers_successor_looks_at_no_stranger(
    cluster: PrivateCluster, attackers: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is there is found all the same."""
    server = discovery.server(cluster.postmaster_pid)
    looked: list[str] = []
    real = program.look

    def look(path: Path | str, name: str | None = None) -> program.Known:
        looked.append(str(path))
        return real(path, name)

    monkeypatch.setattr(program, "look", look)
    assert discovery.successor(server) == server
    strangers = {f"/proc/{pid}/exe" for pid in attackers}
    assert looked and not strangers & {*looked}
