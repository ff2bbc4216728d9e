"""A server's user is not trusted: what it puts where root will work leads root nowhere.

The attacker is a process of that user, without capabilities. Its victim is a directory of root's.
"""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from child import wait_for
from copied_cluster import CopiedCluster
from fix_cluster import bindir
from fix_markers import PG_VERSION
from fix_storage import LAB_STATE
from pgtrace.errors import PgtraceError
from pgtrace.lab.core import page_cache, storages
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.lab.core.undo_log import Changes, Cluster, Directory, restore
from pgtrace.linux import as_user, foreign_files
from pgtrace.postgres import discovery, tablespaces
from pgtrace_command import NOT_COVERED, Pgtrace
from servers_user import IDS, attack, attackers_directory

pytestmark = pytest.mark.pg("15")

SECRET = "root's alone\n"
Stat = dict[str, tuple[int, ...] | str]


def look(directory: Path) -> Stat:
    """Everything that an attack may change."""
    found: Stat = {}
    for path in (directory, *sorted(directory.rglob("*"))):
        status = path.lstat()
        found[str(path)] = (status.st_mode, status.st_uid, status.st_gid, status.st_ino)
        if path.is_file():
            found[f"{path}:"] = path.read_text()
    return found


@pytest.fixture
def victim(disk_directory: Path) -> Iterator[Path]:
    """A directory of root's, which is the same after the test."""
    own = Path(tempfile.mkdtemp(prefix="victim-", dir=disk_directory))
    own.chmod(0o755)
    for name in "file", "postmaster.pid", "postgresql.conf":
        (own / name).write_text(SECRET)
        (own / name).chmod(0o600)
    yield own
    for path in own.rglob("*"):
        if path.is_file():
            assert path.read_text() == SECRET
    shutil.rmtree(own)


@pytest.fixture
def storage(disk_directory: Path) -> Iterator[Path]:
    """A directory of the server's user, which that user can put another in the place of."""
    with attackers_directory(disk_directory) as directory:
        yield directory


class Attacked(CopiedCluster):
    """Attacked when initdb is done, and root has yet to write its settings."""

    def __init__(self, script: str, *arguments: object, **options: Any) -> None:
        super().__init__({"autovacuum": False}, **options)
        self._attack = script, arguments

    def _initdb(self) -> None:
        super()._initdb()
        script, arguments = self._attack
        attack(script, self.base, *arguments)


LINKED_CONF = 'cd "$1/data"; mv postgresql.conf kept; ln -s "$2" postgresql.conf'
LINKED_LOG = 'ln -s "$2" "$1/log"'
SWAPPED_DATA = 'mv "$1/data" "$1/kept"; ln -s "$2" "$1/data"'
SWAPPED_BASE = 'mv "$1" "$1.kept"; ln -s "$2" "$1"; mkdir "$1.kept/tmp"'


@pytest.mark.parametrize("pid_namespace", [False, True], ids=["", "namespace"])
@pytest.mark.parametrize(
    ("script", "target"),
    [
        (LINKED_CONF, "file"),
        (LINKED_CONF, "made"),
        (LINKED_LOG, "file"),
        (LINKED_LOG, "made"),
        (SWAPPED_DATA, ""),
    ],
)
def test_links_in_the_clusters_directory(
    victim: Path, storage: Path, script: str, target: str, pid_namespace: bool
) -> None:
    before = look(victim)
    cluster = Attacked(script, victim / target, directory=storage, pid_namespace=pid_namespace)
    with pytest.raises(PgtraceError) as raised, cluster:
        pass
    assert SECRET.strip() not in str(raised.value)
    assert look(victim) == before
    assert list(storage.iterdir()) == []


def test_the_log_of_a_server_in_a_namespace_cannot_be_linked_later(
    victim: Path, storage: Path
) -> None:
    before = look(victim)
    with CopiedCluster(directory=storage, pid_namespace=True) as cluster:
        cluster.stop()
        attack('rm "$1/log"; ln -s "$2" "$1/log"', cluster.base, victim / "file")
        with pytest.raises(PgtraceError):
            cluster.start()
    assert look(victim) == before


def test_the_base_directory_is_swapped(victim: Path, storage: Path) -> None:
    before = look(victim)
    with pytest.raises(PgtraceError), Attacked(SWAPPED_BASE, victim, directory=storage):
        pass
    assert look(victim) == before


SWAPPED_STORAGE = 'mv "$1" "$1.kept"; ln -s "$2" "$1"'


def test_removal_is_of_what_was_made_and_not_of_what_has_its_name(
    victim: Path, storage: Path
) -> None:
    """The directory above is swapped for one in which the name is a tree of root's."""
    with CopiedCluster(directory=storage) as cluster:
        tree = victim / cluster.base.name
        (tree / "data").mkdir(parents=True)
        (tree / "data/file").write_text(SECRET)
        before = look(victim)
        attack(SWAPPED_STORAGE, storage, victim)
    assert look(victim) == before
    assert list(storage.with_name("storage.kept").iterdir()) == []


def test_a_link_inside_is_removed_and_not_what_it_leads_to(victim: Path, storage: Path) -> None:
    before = look(victim)
    with CopiedCluster(directory=storage) as cluster:
        attack('ln -s "$2" "$1/data/base/link"; ln -s "$2" "$1/link"', cluster.base, victim)
    assert look(victim) == before
    assert list(storage.iterdir()) == []


def test_restoring_removes_no_tree_of_others(
    own_state: None, victim: Path, storage: Path, tmp_path: Path
) -> None:
    """After kill -9 of it all: the state names paths, which lead elsewhere by now."""
    directory, base = storage / "pgtrace-lab-1", storage / "pgtrace-1"
    changes: list[dict[str, Any]] = [
        {"type": "directory", "path": str(directory), "uid": IDS[0], "gid": IDS[1]},
        {
            "type": "cluster", "base": str(base), "data": str(base / "data"),
            "socket_directory": str(base), "uid": IDS[0], "gid": IDS[1],
        },
    ]  # fmt: skip
    for name in directory.name, base.name:
        (victim / name).mkdir()
        (victim / name / "file").write_text(SECRET)
    before = look(victim)
    attack(SWAPPED_STORAGE, storage, victim)
    for change in changes:
        document = {"pid": 1 << 30, "start_time_ticks": 1, "changes": [change]}
        (LAB_STATE / "lab-1.json").write_text(json.dumps(document))
        with pytest.raises(PgtraceError, match="failed"):
            list(restore())
    assert look(victim) == before


def test_a_tablespaces_directory_is_not_made_in_the_place_of_another(
    own_state: None, victim: Path, storage: Path
) -> None:
    """Nor is anything given to the server's user that was not."""
    place = storages.Place("disk", storage)
    name = f"pgtrace-lab-{os.getpid()}"
    before = look(victim)
    attack('ln -s "$2" "$1"', storage / name, victim)
    with pytest.raises(PgtraceError), Changes() as changes:
        storages.make_directories(changes, [place], IDS)
    assert look(victim) == before
    attack('rm -f "$1"; rmdir "$2"; ln -s "$3" "$2"', storage / name, storage, victim)
    with pytest.raises(PgtraceError), Changes() as changes:
        storages.make_directories(changes, [place], IDS)
    assert look(victim) == before


ATTACKER = r"""
import glob, os, sys, time
place, target, linked = sys.argv[1], sys.argv[2], set()
def link(name):
    try:
        if name in linked:  # again and again would also keep the directory from being removed
            return
        if os.path.lexists(name):
            os.rename(name, name + ".kept")
        os.symlink(target, name)
        linked.add(name)
        print(name, flush=True)
    except OSError:
        pass
while True:
    time.sleep(0.001)
    for base in glob.glob(place + "/pgtrace-*/pgtrace-*"):
        for name in sys.argv[3:]:
            if os.path.isdir(os.path.dirname(os.path.join(base, name))):
                link(os.path.join(base, name))
"""


@pytest.mark.usefixtures("own_state")
@pytest.mark.parametrize("names", [["writer.sql", "reader.sql"], ["data/postgresql.conf"]])
def test_an_experiment_under_attack(
    victim: Path, storage: Path, tmp_path: Path, names: list[str]
) -> None:
    """All along a process links whatever it can to a file of root's."""
    before = look(victim)
    programs = bindir(PG_VERSION)
    attacker = subprocess.Popen(
        ["setpriv", f"--reuid={IDS[0]}", f"--regid={IDS[1]}", "--clear-groups",
         "--inh-caps=-all", "/usr/bin/python3", "-c", ATTACKER, storage, victim / "file",
         *names],
        stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, cwd="/",
    )  # fmt: skip
    try:
        with Pgtrace(
            "lab", "sync", "--server", f"A={programs}", "--server", f"B={programs},fsync=off",
            "--rows", 1000, "--transactions", 40, "--clients", 2, "--bulk-rows", 1000,
            "--runs", 1, "--data-storage", f"disk={storage}", "-o", tmp_path / "F",
        ) as started:  # fmt: skip
            end = started.ended()
    finally:
        attacker.kill()
        said = attacker.communicate()[0]
    assert names[0] in said, "the attack did not happen"
    assert end.code == 0 or names != ["writer.sql", "reader.sql"], end.err
    assert look(victim) == before
    assert list(LAB_STATE.iterdir()) == []


AUDITED = r"""
import os, stat, sys
def may_others_write(path):
    try:
        status = os.stat(path)
    except OSError:
        return False
    return status.st_uid != 0 or bool(status.st_mode & 0o022)
FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
NAMES = {"os.mkdir", "os.chmod", "os.chown", "os.remove", "os.rmdir", "os.rename", "os.symlink",
         "os.link", "os.truncate", "shutil.rmtree", "tempfile.mkdtemp", "tempfile.mkstemp"}
busy = False
def hook(event, arguments):
    global busy
    if busy or not (event in NAMES or event == "open"):
        return
    if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & FLAGS & ~0):
        return
    path = arguments[1] if event in ("os.symlink", "os.rename", "os.link") else arguments[0]
    if isinstance(path, int):
        return
    busy = True
    path = os.fsdecode(path)
    if path.startswith("/") and not path.startswith(("/proc/", "/sys/", "/dev/")):
        if may_others_write(os.path.dirname(path)):
            print("AUDIT", event, path, file=sys.stderr, flush=True)
    busy = False
sys.addaudithook(hook)
from pgtrace.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


def audited(*arguments: object) -> list[str]:
    """Run pgtrace; return where its own process wrote what others may write, too."""
    done = subprocess.run(
        [sys.executable, "-c", AUDITED, *map(str, arguments)], env=NOT_COVERED,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [line for line in done.stderr.splitlines() if line.startswith("AUDIT")]


def test_root_writes_nothing_where_others_may(
    own_state: None, victim: Path, storage: Path, tmp_path: Path
) -> None:
    programs = bindir(PG_VERSION)
    sizes = "--rows", 1000, "--transactions", 40, "--clients", 2, "--bulk-rows", 1000
    assert audited(
        "lab", "sync", "--server", f"A={programs}", "--server", f"B={programs},fsync=off",
        *sizes, "--runs", 1, "--data-storage", f"disk={storage}", "-o", tmp_path / "F",
    ) == []  # fmt: skip
    assert audited(
        "lab", "pages", "--storage", f"disk={storage}", "--memory", "--rows", 20_000,
        "--runs", 2, "-o", tmp_path / "G",
    ) == []  # fmt: skip
    assert list(storage.iterdir()) == []


def test_the_child_can_do_nothing_but_what_its_user_can(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = as_user.run(IDS, ["cat", "/proc/self/status"]).splitlines()
    status = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
    assert status["Uid"] == [str(IDS[0])] * 4
    assert status["Gid"] == [str(IDS[1])] * 4
    assert status["Groups"] == []
    for capabilities in "CapInh", "CapPrm", "CapEff", "CapAmb":
        assert int(status[capabilities][0], 16) == 0
    assert status["NoNewPrivs"] == ["1"]
    monkeypatch.setenv("PGPASSWORD", "secret")
    said = as_user.run(IDS, ["sh", "-c", 'echo "<$PGPASSWORD>"; ps -o sid= -p $$; echo $$'])
    password, session, own = said.split()
    assert (password, session) == ("<>", own)
    with pytest.raises(PgtraceError, match="by root"):
        as_user.run((0, 0), ["true"])


def test_so_it_is_with_the_servers_programs(storage: Path) -> None:
    with CopiedCluster(directory=storage) as cluster:
        status = Path(f"/proc/{cluster.postmaster_pid}/status").read_text()
    assert "NoNewPrivs:\t1\n" in status
    for name in "CapInh", "CapPrm", "CapEff", "CapAmb":
        assert f"{name}:\t0000000000000000\n" in status
    assert "Groups:\t \n" in status or "Groups:\t\n" in status


def test_a_keeper_is_the_servers_user(storage: Path) -> None:
    with CopiedCluster(directory=storage) as cluster:
        keeper = cluster._keeper
        assert keeper is not None
        wait_for(lambda: Path(f"/proc/{keeper.pid}").stat().st_uid == IDS[0])
        change = Cluster.of(cluster)
        assert (change.uid, change.gid) == IDS


def test_in_a_directory_of_roots_its_user_empties_it_and_root_removes_it(victim: Path) -> None:
    before = look(victim)
    with CopiedCluster(directory=victim) as cluster:
        status = cluster.base.stat()
        assert (status.st_uid, status.st_mode & 0o7777) == (IDS[0], 0o700)
        attack('ln -s "$2" "$1/link"; mv "$1/data/base" "$1/base"', cluster.base, victim)
    assert look(victim) == before


def test_nor_is_root_led_to_make_one_in_its_own(victim: Path, storage: Path) -> None:
    before = look(victim)
    attack(SWAPPED_STORAGE, storage, victim)
    (victim / "in").mkdir()
    for directory in storage, storage / "in", storage / "in/..":
        with pytest.raises(PgtraceError, match="no server can be made"):
            PrivateCluster(directory=directory).__enter__()
    (victim / "in").rmdir()
    assert look(victim) == before


def test_a_directory_is_removed_once(storage: Path) -> None:
    change = Directory(str(storage / "made"), *IDS)
    attack('mkdir -p "$1/made/in"; touch "$1/made/file"', storage)
    assert change.undo() == f"removed {storage}/made"
    assert change.undo() is None


# What root reads of theirs


def lay(kind: str, path: Path, victim: Path) -> None:
    """Put something in the place of a file of the server's, as its user."""
    script = {
        "fifo": 'rm -f "$1"; mkfifo "$1"',
        "link": 'rm -f "$1"; ln -s "$2" "$1"',
        "device": 'rm -f "$1"; ln -s /dev/zero "$1"',
        "huge": 'truncate -s 2T "$1"',
        "nonsense": 'rm -f "$1"; echo 1 >"$1"',
    }[kind]
    attack(script, path, victim)


@pytest.fixture
def soon() -> Iterator[None]:
    """It neither hangs nor takes the memory of the host."""
    was = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    signal.alarm(60)  # which ends the test program: a FIFO would hold it for ever
    yield
    signal.alarm(0)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - was < 200 << 10


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("kind", ["fifo", "link", "device", "huge", "nonsense"])
def test_a_lock_file_that_is_none(victim: Path, storage: Path, kind: str) -> None:
    """Nor is a process of another user's, such as init, taken for its postmaster."""
    with CopiedCluster(directory=storage) as cluster:
        lay(kind, cluster.datadir / "postmaster.pid", victim / "file")
        if kind == "huge":
            assert cluster.postmaster_pid > 1
        else:
            with pytest.raises((OSError, PgtraceError)):
                print(cluster.postmaster_pid)


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("kind", ["fifo", "link", "device", "huge"])
def test_a_log_that_is_none(victim: Path, storage: Path, kind: str) -> None:
    with CopiedCluster(directory=storage) as cluster:
        lay(kind, cluster.log, victim / "file")
        if kind == "huge":
            assert cluster.log_size() == 2 << 40
            assert len(cluster.logged_since(1 << 20)) == 1 << 20
        else:
            for read in cluster.log_size, lambda: cluster.logged_since(0):
                with pytest.raises(OSError):
                    read()


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("kind", ["fifo", "link", "device", "huge"])
def test_a_relations_file_that_is_none(victim: Path, storage: Path, kind: str) -> None:
    """A device would be opened by root, whatever that does; a large one mapped."""
    path = storage / "16384"
    lay(kind, path, victim / "file")
    for look in page_cache.residency, lambda it: page_cache.evict([it]):
        with pytest.raises(OSError):
            look(path)


@pytest.mark.usefixtures("soon")
def test_a_tablespace_of_links_and_without_end(victim: Path, storage: Path) -> None:
    with CopiedCluster(directory=storage) as cluster:
        attack(
            'cd "$1/pg_tblspc"; ln -s "$2" 7; mkdir 8 8/PG_x; ln -s "$2" 8/PG_y; mkdir -p 9; cd 9; '
            "seq -f PG_%.0f 5000 | xargs mkdir",
            cluster.datadir,
            victim,
        )
        server = discovery.server(cluster.postmaster_pid)
        began = time.monotonic()
        found = list(tablespaces._directories(server))
        assert time.monotonic() - began < 5
    assert len(found) < 3 * foreign_files.MOST_NAMES
    assert not any(path.startswith("pg_tblspc/7") for _, path, _, _ in found)


def test_a_server_cannot_be_made_where_its_user_may_not_write(disk_directory: Path) -> None:
    alices = Path(tempfile.mkdtemp(prefix="alice-", dir=disk_directory))
    os.chown(alices, 65534, 65534)
    try:
        with pytest.raises(PgtraceError, match=f"no server can be made in {alices}"):
            PrivateCluster(directory=alices).__enter__()
        assert list(alices.iterdir()) == []
    finally:
        alices.rmdir()
