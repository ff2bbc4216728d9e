"""What cannot go well is refused before the first byte, with what to type next."""

import ctypes
import os
import pwd
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from child import OWN_MOUNTS
from fix_cluster import bindir
from pgtrace.engines.select import probe_types
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace_command import Ended, run, wait_for

pytestmark = pytest.mark.pg("15")


def give(directory: Path) -> Path:
    """To the server's user, with all that leads there."""
    user = pwd.getpwnam("postgres")
    os.chown(directory, user.pw_uid, user.pw_gid)
    return directory


@pytest.fixture
def place(disk_directory: Path) -> Iterator[Path]:
    """A directory that can be used; nothing may come into it."""
    own = disk_directory / "place"
    own.mkdir()
    yield give(own)
    assert list(own.iterdir()) == []
    own.rmdir()


def pages(*arguments: object) -> Ended:
    end = run("lab", "pages", "--rows", "1000", "--runs", "1", *arguments)
    assert end.out == ""
    return end


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ([], 2, "which storage\\? .*--storage ssd=/mnt/ssd"),
        (["--storage", "PLACE"], 2, "say it as in --storage ssd=/mnt/ssd"),
        (["--storage", "a b=PLACE"], 2, "a name has up to 31 letters"),
        (["--storage", "ssd=PLACE/none"], 2, "does not exist; name an empty one"),
        (["--storage", "ssd=/etc/passwd"], 2, "is not a directory; name an empty one"),
        (["--storage", "a=PLACE", "--storage", "a=/var"], 2, "two storages are named a: "),
        (["--storage", "memory=PLACE", "--memory"], 2, "are named memory; --memory is one, too"),
        (["--storage", "a=PLACE", "--storage", "b=PLACE/."], 2, "a and b are one directory"),
        (["--storage", "a=PLACE", "--cpu-server", "4000"], 2, "--cpu-server 4000: .* there are 0"),
        (["--storage", "a=PLACE", "--cpu-tracer", "x"], 2, "is not the number of a CPU"),
        (["--storage", "a=PLACE", "--rows", "0"], 2, "is not a number above 0"),
        (["--storage", "a=PLACE", "--pg-bin", "/usr/bin"], 5, "no postgres in it; name the folder"),
        (["--storage", "a=PLACE", "--user", "nobody-here"], 2, "there is no such user"),
        (["--storage", "a=PLACE", "--user", "root"], 2, "refuses to run as root; name another"),
        (["--storage", "a=PLACE", "--direct-io"], 5, "needs PostgreSQL 16 or later, .* is 15"),
        (["--storage", "a=PLACE", "--shared-host"], 2, "--shared-host is for --dsn"),
        (["--storage", "a=PLACE", "--dsn", "", "--direct-io"], 2, "--direct-io is for a server of"),
        (["--storage", "a=PLACE", "--dsn", "port=1"], 7, "--dsn: "),
        (["--storage", "a=PLACE", "-o", "/etc/passwd"], 2, "exists; --force overwrites it"),
        (["--storage", "a=PLACE", "--probe", "magic"], 2, "invalid choice"),
    ],
)
def test_options_that_cannot_be(place: Path, options: list[str], code: int, message: str) -> None:
    end = pages(*(option.replace("PLACE", str(place)) for option in options))
    assert end.code == code, end.err
    assert len(end.err.splitlines()) == 1
    assert_matches(message, end.err)


def assert_matches(pattern: str, text: str) -> None:
    import re

    assert re.search(pattern, text), text


def test_a_way_in_that_the_kernel_refuses(place: Path) -> None:
    """Said before hours of loading."""
    ways = probe_types(os.getpid())
    refused = [way for way, why in ways.items() if why]
    if not refused:
        pytest.skip("this kernel allows every probe type")
    end = pages("--storage", f"a={place}", "--probe", refused[0])
    assert end.code == 5
    assert "pgtrace doctor` says what this kernel allows" in end.err


def test_a_server_of_its_own_needs_postgresql(place: Path) -> None:
    """Where none is installed the package is named: in a root without it."""
    unseen = 'mount -t tmpfs tmpfs /usr/lib/postgresql && exec "$@"'
    command = [sys.executable, "-m", "pgtrace", "lab", "pages", "--storage", f"a={place}"]
    end = subprocess.run(
        [*OWN_MOUNTS, "sh", "-c", unseen, "sh", *command],
        capture_output=True,
        text=True,
        check=False,
    )
    assert end.returncode == 5, end.stderr
    assert "apt-get install postgresql" in end.stderr


def test_a_directory_that_is_not_empty(place: Path) -> None:
    own = give(place)
    (own / "data").mkdir()
    try:
        end = pages("--storage", f"full={own}")
    finally:
        (own / "data").rmdir()
    assert end.code == 2
    assert f"--storage full: {own} is not empty (it holds data)" in end.err


def test_a_directory_that_the_servers_user_may_not_write_to(place: Path) -> None:
    os.chown(place, 65534, 65534)
    end = pages("--storage", f"mine={place}")
    assert end.code == 2
    assert f"{place} is not writable by the server's user postgres: chown postgres" in end.err


def test_a_directory_of_roots_that_the_servers_user_may_not_enter(place: Path) -> None:
    os.chown(place, 0, 0)
    place.chmod(0o700)
    end = pages("--storage", f"mine={place}")
    assert end.code == 2
    assert f"{place} is not writable by the server's user postgres: chown postgres" in end.err


def test_too_little_room_names_what_is_needed(place: Path) -> None:
    end = pages("--storage", f"one={place}", "--rows", "1,000,000,000,000")
    assert end.code == 2
    assert_matches(
        rf"too little room for .*one \({place}\): 100.\d TiB are needed, .* are free", end.err
    )


def test_more_than_memory_holds_is_refused() -> None:
    end = pages("--memory", "--rows", "400,000,000")
    assert end.code == 2
    assert_matches("41.0 GiB (of tables cannot be held in memory|are needed)", end.err)


def test_without_root(place: Path) -> None:
    end = subprocess.run(
        [sys.executable, "-m", "pgtrace", "lab", "pages", "--storage", f"a={place}"],
        capture_output=True,
        text=True,
        user="nobody",
        extra_groups=[],
        check=False,
    )
    assert end.returncode == 4
    assert f"type: sudo {sys.executable} -m pgtrace lab pages " in end.stderr


def test_a_network_file_system(tmp_path: Path) -> None:
    with network_file_system(tmp_path) as directory:
        end = pages("--storage", f"far={directory}")
    assert end.code == 2
    assert f"{directory} is on a network file system (fuse.sshfs)" in end.err


@contextmanager
def network_file_system(directory: Path) -> Iterator[Path]:
    """One that the kernel takes for sshfs: an empty directory, answered by a thread."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={fd},rootmode=40755,user_id=0,group_id=0,allow_other".encode()
    if libc.mount(b"host:", os.fsencode(directory), b"fuse.sshfs", 0, options) != 0:
        os.close(fd)
        pytest.skip(f"no FUSE: {os.strerror(ctypes.get_errno())}")
    threading.Thread(target=_answer, args=(fd,), daemon=True).start()
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", directory], check=True)
        os.close(fd)


def _answer(fd: int) -> None:
    """FUSE_INIT and FUSE_GETATTR, include/uapi/linux/fuse.h; the rest is not there."""
    attributes = struct.pack("<6Q10I", 1, 0, 0, 0, 0, 0, 0, 0, 0, 0o40755, 2, 0, 0, 0, 512, 0)
    answers = {
        26: struct.pack("<4I", 7, 31, 0, 0).ljust(64, b"\0"),
        3: struct.pack("<QII", 0, 0, 0) + attributes,
    }
    while True:
        try:
            request = os.read(fd, 1 << 17)
        except OSError:
            return
        _, opcode, unique = struct.unpack_from("<IIQ", request)
        body = answers.get(opcode)
        error = 0 if body is not None else -38  # ENOSYS
        body = body or b""
        os.write(fd, struct.pack("<IiQ", 16 + len(body), error, unique) + body)


def test_a_server_with_other_clients(place: Path, cluster: PrivateCluster) -> None:
    with cluster.connect() as client:
        others = (
            "select count(*) from pg_stat_activity"
            " where backend_type = 'client backend' and pid <> pg_backend_pid()"
        )
        # Who was a client of the test before may not have ended yet
        wait_for(lambda: client.execute(others).fetchone() == (0,))
        end = pages("--storage", f"a={place}", "--dsn", cluster.dsn())
    assert end.code == 2
    assert_matches("1 other clients? (is|are) connected.*--shared-host", end.err)


def test_a_role_that_may_make_no_tablespace(place: Path, cluster: PrivateCluster) -> None:
    with cluster.connect() as connection:
        connection.execute("create role plain login")
    try:
        end = pages("--storage", f"a={place}", "--dsn", cluster.dsn(user="plain"))
    finally:
        with cluster.connect() as connection:
            connection.execute("drop role plain")
    assert end.code == 4
    assert "plain is no superuser" in end.err


def test_direct_io_of_what_is_in_memory() -> None:
    end = pages("--memory", "--direct-io", "--pg-bin", bindir(17))
    assert end.code == 2
    assert "leave one of them out" in end.err
