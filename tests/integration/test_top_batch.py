"""pgtrace top as text: what it prints, how it ends, and a server that is restarted meanwhile."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from fix_cluster import SEQUENTIAL, Connection, Server, make_cold
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace_command import PATIENCE_S, PGTRACE, Pgtrace, run, wait_for
from scans import scanning

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="traces: needs root")


@pytest.fixture(scope="module")
def cluster(server: Server) -> PrivateCluster:
    """Each scan leaves a ring of 32 buffers behind: after sixty of them 16 MB had the whole table,
    and nothing was read any more.
    """
    return server(shared_buffers="128kB")


def test_each_list_is_printed_as_often_as_asked(cluster: PrivateCluster) -> None:
    with scanning(cluster):
        for tab, head in (
            ("backends", "state, and what it runs"),
            ("statements", "statement"),
            ("relations", "relation or kind of file"),
            ("devices", "tablespace and its device"),
            ("wait-events", "what processes did, or waited for"),
        ):
            words = ("--server", cluster.datadir, "--batch", 2, "--tab", tab, "--time")
            ended = run("top", *words)
            assert ended.code == 0, ended.err
            assert len(re.findall(r"^\d\d:\d\d:\d\d UTC: ", ended.out, re.MULTILINE)) == 2
            assert re.search(rf" {head}$", ended.out, re.MULTILINE)
            assert max(map(len, ended.out.splitlines())) <= 80


def test_what_waits_for_the_device_is_named(
    cluster: PrivateCluster, connection: Connection
) -> None:
    with Pgtrace("top", "--server", cluster.datadir, "--batch", 300, "--tab", "statements") as top:
        top.wait_for("UTC: ")

        def waits() -> bool:
            """Again until it adds up: a quick device takes less than a millisecond for one scan."""
            make_cold(cluster, connection)
            connection.execute(SEQUENTIAL)
            return bool(re.search(r" ms +\d+ % .*select .* from tbl_cost_align", top.out))

        wait_for(waits, instead=lambda: top.out)
        top.send(signal.SIGINT)
        assert top.ended().code == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_well(cluster: PrivateCluster, number: signal.Signals) -> None:
    with Pgtrace("top", "--server", cluster.datadir, "--batch", 1000) as top:
        top.wait_for("UTC: ")
        top.send(number)
        assert top.ended().code == 0


def test_who_reads_no_more_ends_it(cluster: PrivateCluster) -> None:
    words = [*PGTRACE, "top", "--server", cluster.datadir, "--batch", "1000"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as top:
        assert top.stdout and top.stderr
        top.stdout.readline()
        top.stdout.close()
        assert (top.wait(60), top.stderr.read()) == (0, b"")


def test_a_server_may_be_restarted_meanwhile(cluster: PrivateCluster) -> None:
    """It is said to be away, and what is read afterwards is told as before."""
    with Pgtrace("top", "--server", cluster.datadir, "--batch", 1000, "--tab", "relations") as top:
        top.wait_for("UTC: ")
        cluster.stop()
        top.wait_for("the server is away")
        cluster.start()
        with cluster.connect() as connection:
            again = re.compile(r"is away(?:.*\n)*.*tbl_cost_align \(heap\)")
            end = time.monotonic() + PATIENCE_S
            while not again.search(top.out):
                assert time.monotonic() < end, top.out[:12_000]
                make_cold(cluster, connection)
                connection.execute(SEQUENTIAL)
                time.sleep(0.5)
        top.send(signal.SIGINT)
        assert top.ended().code == 0


@pytest.mark.parametrize("words", [(), ("--tab", "statements")])
def test_without_a_terminal_it_says_what_to_type(
    cluster: PrivateCluster, words: tuple[str, ...]
) -> None:
    ended = run("top", "--server", cluster.datadir, *words)
    assert ended.code == 2
    assert "pgtrace top --batch 1" in ended.err
    assert ended.out == ""


def test_bad_input_is_refused_before_anything_is_traced(tmp_path: Path) -> None:
    for words, code in (
        (("--batch", "0"), 2),
        (("--batch", "many"), 2),
        (("--tab", "nothing"), 2),
        (("--batch", "1", "--server", str(tmp_path)), 3),
        (("--batch", "1", "-p", str(os.getpid())), 3),
        (("--batch", "1", "--no-connect", "--dsn", "x"), 2),
    ):
        ended = run("top", *words)
        assert (ended.code, ended.out) == (code, ""), ended
        assert ended.err.startswith("pgtrace: ")
