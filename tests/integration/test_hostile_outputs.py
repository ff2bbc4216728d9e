"""Where root writes a file, others may be at work: whatever they lay there changes nothing.

The attacker is a process of another user, without capabilities. Its victim is a directory of
root's.
"""

import os
import pwd
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from captures import some_capture
from child import Child, Ended
from hostile import UID
from pgtrace.errors import UsageError
from pgtrace.files import documents, output_file, output_stream
from pgtrace.model import encoding
from pgtrace_command import PGTRACE, run

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="becomes other users: needs root")

CAPTURE = some_capture()
SECRET = "root's alone\n"
PATIENCE_S = 20
BECOME = ("setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "--inh-caps=-all")


def attack(script: str, *arguments: object) -> None:
    subprocess.run([*BECOME, "sh", "-ec", script, "sh", *map(str, arguments)], check=True, cwd="/")


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("captured") / "file"
    documents.write(CAPTURE, file)
    return file


@pytest.fixture
def victim(disk_directory: Path) -> Iterator[Path]:
    """A directory of root's own, in which nothing is to change."""
    own = Path(tempfile.mkdtemp(prefix="victim-", dir=disk_directory))
    (own / "file").write_text(SECRET)
    own.chmod(0o755)
    yield own
    assert [path.name for path in own.iterdir()] == ["file"]
    assert (own / "file").read_text() == SECRET
    shutil.rmtree(own)


@pytest.fixture
def theirs(disk_directory: Path) -> Iterator[Path]:
    """A directory of the other user's."""
    own = Path(tempfile.mkdtemp(prefix="hostile-", dir=disk_directory))
    own.chmod(0o755)
    os.chown(own, UID, UID)
    yield own
    shutil.rmtree(own)


@pytest.fixture
def sticky(disk_directory: Path) -> Iterator[Path]:
    """As /tmp: everybody may make files in it, and remove their own."""
    own = Path(tempfile.mkdtemp(prefix="sticky-", dir=disk_directory))
    own.chmod(0o1777)
    yield own
    shutil.rmtree(own)


@pytest.fixture
def of_a_group(sticky: Path) -> Path:
    """The same, for the other user's group."""
    os.chown(sticky, 0, UID)
    sticky.chmod(0o1775)
    return sticky


WHERE = pytest.mark.parametrize("where", ["theirs", "sticky", "of_a_group"])


def report(captured: Path, to: Path | str, *options: str) -> Ended:
    """Root's; it ends in a while."""
    began = time.monotonic()
    ended = run("report", captured, "-o", to, *options, cwd="/")
    assert time.monotonic() - began < PATIENCE_S
    assert "unexpected" not in ended.err
    return ended


# What lies under the name


@pytest.mark.parametrize("options", [(), ("--force",)], ids=str)
@WHERE
@pytest.mark.parametrize("reads", [False, True])
def test_a_fifo_of_others(
    captured: Path, request: pytest.FixtureRequest, where: str, options: tuple[str], reads: bool
) -> None:
    """Nothing is written into it, and nobody waits for a reader."""
    fifo = request.getfixturevalue(where) / "o.json"
    attack('mkfifo -m 666 "$1"', fifo)
    with Child(*BECOME, "cat", fifo if reads else "/dev/null") as reader:
        time.sleep(0.5)
        ended = report(captured, fifo, *options)
        assert (ended.code, ended.out) == (2, ""), ended
        reader.kill()
    assert reader.out == ""
    assert fifo.is_fifo()


@WHERE
def test_a_device_of_others(captured: Path, request: pytest.FixtureRequest, where: str) -> None:
    """Such as their terminal."""
    device = request.getfixturevalue(where) / "o.json"
    os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 7))  # /dev/full: it would say so
    os.chown(device, UID, UID)
    ended = report(captured, device, "--force")
    assert ended.code == 2
    assert "No space" not in ended.err


@WHERE
@pytest.mark.parametrize("to", ["file", "made"])
def test_a_link_to_a_file_of_roots(
    captured: Path, victim: Path, request: pytest.FixtureRequest, where: str, to: str
) -> None:
    link = request.getfixturevalue(where) / "o.json"
    attack('ln -s "$2" "$1"', link, victim / to)
    for options in (), ("--force",):
        assert report(captured, link, *options).code == 2
        assert link.is_symlink()


# Where the path leads


@pytest.mark.parametrize("path", ["d/o.json", "d/../victim/o.json", "./d/./o.json"])
@WHERE
def test_a_directory_that_is_a_link(
    captured: Path, victim: Path, request: pytest.FixtureRequest, where: str, path: str
) -> None:
    place = request.getfixturevalue(where)
    attack('ln -s "$2" "$1"', place / "d", victim)
    ended = report(captured, f"{place}/{path.replace('victim', victim.name)}", "--force")
    assert (ended.code, ended.out) == (2, ""), ended


def test_a_working_directory_that_is_theirs(captured: Path, victim: Path, theirs: Path) -> None:
    attack('ln -s "$2" "$1"', theirs / "d", victim)
    ended = run("report", captured, "-o", "d/o.json", cwd=theirs)
    assert ended.code == 2


SWAPPING = """
import ctypes, os, sys
there, victim = sys.argv[1:]
os.chdir(there)
os.mkdir("real")
os.symlink(victim, "other")
print("ready", flush=True)
exchange = ctypes.CDLL(None).renameat2
while True:
    exchange(-100, b"real", -100, b"other", 2)
    for name in os.listdir("."):
        if name.startswith((".pgtrace", "o.json")) and not os.path.islink(name):
            try:
                os.unlink(name)
                os.symlink(victim + "/made", name)
            except OSError:
                pass
"""


def test_directories_and_files_that_change_all_the_time(
    captured: Path, victim: Path, theirs: Path
) -> None:
    """Whatever comes of it, it is nothing of root's."""
    document = encoding.encode(CAPTURE)
    with Child(*BECOME, "/usr/bin/python3", "-c", SWAPPING, theirs, victim) as attacker:
        assert attacker.line() == "ready\n"
        ended = set()
        for _ in range(30):
            for path in theirs / "real/o.json", theirs / "o.json":
                try:
                    documents.write(CAPTURE, path, force=True)
                    ended.add("written")
                except UsageError:
                    ended.add("refused")
        assert attacker.code is None
    assert ended == {"written", "refused"}
    for path in theirs.rglob("*.json"):
        assert path.is_symlink() or path.read_bytes() == document
        assert path.lstat().st_uid == UID


@pytest.mark.parametrize("mode", [0o777, 0o775])
def test_a_directory_where_anybody_may_swap_names(
    captured: Path, disk_directory: Path, mode: int
) -> None:
    own = Path(tempfile.mkdtemp(prefix="open-", dir=disk_directory))
    try:
        own.chmod(mode)
        (own / "in").mkdir()
        for path in own / "o.json", own / "in/o.json":
            ended = report(captured, path)
            assert ended.code == 2
            assert f"others may write in {own}" in ended.err
        assert [each.name for each in own.rglob("*")] == ["in"]
    finally:
        shutil.rmtree(own)


def test_directories_of_two_users(captured: Path, theirs: Path) -> None:
    """Neither is to use the other's rights through root."""
    (theirs / "in").mkdir()
    os.chown(theirs / "in", UID + 1, UID + 1)
    ended = report(captured, theirs / "in/o.json")
    assert ended.code == 2
    assert f"{UID}" in ended.err and f"{UID + 1}" in ended.err
    assert list((theirs / "in").iterdir()) == []


# What works


def test_root_writes_into_anothers_directory_as_that_user(captured: Path, theirs: Path) -> None:
    """`sudo pgtrace capture -o slow.json`, in a directory of one's own."""
    for options in (), ("--force",):
        ended = run("report", captured, "--json", "-o", "slow.json", *options, cwd=theirs)
        assert ended.code == 0, ended
        assert ended.err == f"Wrote slow.json as user {UID}\n"
        status = (theirs / "slow.json").stat()
        assert (status.st_uid, status.st_gid) == (UID, 65534)
        assert stat.S_IMODE(status.st_mode) == 0o600
        assert (theirs / "slow.json").read_bytes() == captured.read_bytes()
        assert [path.name for path in theirs.iterdir()] == ["slow.json"]
    assert "exists" in report(captured, theirs / "slow.json").err


def test_the_users_group_is_that_of_the_account(captured: Path, theirs: Path) -> None:
    account = pwd.getpwnam("nobody")
    os.chown(theirs, account.pw_uid, 0)
    ended = report(captured, theirs / "slow.json")
    assert (ended.code, ended.err) == (0, f"Wrote {theirs}/slow.json as nobody\n")
    status = (theirs / "slow.json").stat()
    assert (status.st_uid, status.st_gid) == (account.pw_uid, account.pw_gid)


def test_a_link_of_ones_own_leads_where_one_may_write(
    captured: Path, theirs: Path, disk_directory: Path
) -> None:
    (theirs / "real").mkdir()
    os.chown(theirs / "real", UID, UID)
    attack('ln -s real "$1/link"', theirs)
    assert report(captured, theirs / "link/o.json").code == 0
    assert (theirs / "real/o.json").stat().st_uid == UID


def test_a_directory_of_roots_in_anothers(captured: Path, theirs: Path) -> None:
    """It may be another by the time that root writes there."""
    (theirs / "results").mkdir(mode=0o755)
    ended = report(captured, theirs / "results/o.json")
    assert ended.code == 2
    assert f"{theirs}/results: files cannot be made there by user {UID}, and" in ended.err


def test_files_in_a_sticky_directory_are_roots(captured: Path, sticky: Path) -> None:
    """As in /tmp; and files of others there stay theirs, also with --force."""
    assert report(captured, sticky / "o.json").code == 0
    assert report(captured, sticky / "o.json", "--force").code == 0
    assert (sticky / "o.json").stat().st_uid == 0
    attack('echo mine >"$1"', sticky / "their.json")
    ended = report(captured, sticky / "their.json", "--force")
    assert ended.code == 2
    assert f"belongs to user {UID}" in ended.err
    assert (sticky / "their.json").read_text() == "mine\n"
    assert {path.name for path in sticky.iterdir()} == {"o.json", "their.json"}


def test_ones_own_fifo_with_a_reader(captured: Path, disk_directory: Path) -> None:
    own = Path(tempfile.mkdtemp(dir=disk_directory))
    try:
        os.mkfifo(own / "fifo")
        with Child("cat", own / "fifo") as reader:
            assert report(captured, own / "fifo", "--json").code == 0
            assert reader.ended().out.encode() == captured.read_bytes()
        ended = report(captured, own / "fifo")
        assert (ended.code, ended.out) == (2, "")
        assert "nobody reads from it" in ended.err
    finally:
        shutil.rmtree(own)


@pytest.mark.parametrize("way", ["named", "descriptor"])
def test_a_reader_that_does_not_read(
    disk_directory: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(output_stream, "_PATIENCE_S", 0.5)
    own = Path(tempfile.mkdtemp(dir=disk_directory))
    os.mkfifo(own / "fifo")
    reader = os.open(own / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(own / "fifo", os.O_WRONLY)
    try:
        path = own / "fifo" if way == "named" else f"/dev/fd/{writer}"
        with pytest.raises(UsageError, match=r"nobody reads from it, for 0\.5 s"):
            output_file.write(b"x" * (1 << 20), path)
    finally:
        os.close(reader)
        os.close(writer)
        shutil.rmtree(own)


@pytest.mark.parametrize(
    "words", ["-o /dev/stdout | cat", "-o /dev/fd/3 3>&1 | cat", "-o >(cat) | cat",
              "-o /proc/self/fd/1 | cat", "-o /dev/stdout > {}/o; cat {}/o"]
)  # fmt: skip
def test_streams_that_the_shell_opened(captured: Path, tmp_path: Path, words: str) -> None:
    command = " ".join([*PGTRACE, "-q", "report", "--json", str(captured), words])
    done = subprocess.run(
        ["bash", "-c", command.replace("{}", str(tmp_path))], capture_output=True, check=False
    )
    assert (done.stdout, done.stderr) == (captured.read_bytes(), b"")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("-o /dev/fd/9", "9 is not open"),
        ("-o /dev/stdout >&-", "1 is not open"),
        ("-o /dev/stdin </dev/null", "0 was not opened for writing"),
        ("-o /dev/fd/3 3</dev/null", "3 was not opened for writing"),
        ("-o /dev/stdout >/dev/full", "No space left"),
        ("-o /dev/full", "/dev/full cannot be written: No space left"),
    ],
)
def test_streams_that_cannot_be_written(captured: Path, words: str, says: str) -> None:
    command = " ".join([*PGTRACE, "report", "--json", str(captured), words])
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert "unexpected" not in done.stderr
