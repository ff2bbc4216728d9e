"""The bcc engine where something is missing: each its own sentence, and exit code 5.

That it measures what the libbpf engine does is shown under kernels whose headers are to be had, by
the tests that are marked `vm`.
"""

import platform
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from test_bad_input import check, without

from fix_cluster import Connection
from hidden import hide
from pgtrace.engines.bcc import package as bcc_package
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.postgres import binary
from pgtrace_command import NOT_COVERED, PGTRACE, Ended, run

RELEASE = platform.release()
HEADERS = f"/lib/modules/{RELEASE}/build"
NO_HEADERS = "mkdir -p /lib/modules && mount -t tmpfs none /lib/modules"
"""On a machine to which no kernel was installed, there is no such folder."""
SOME_HEADERS = f"""{NO_HEADERS}
cd /lib/modules && mkdir -p {RELEASE}/build/include/linux {RELEASE}/build/include/generated
cd {RELEASE}/build/include && touch linux/kconfig.h
echo '#define UTS_RELEASE "{{}}"' >generated/utsrelease.h; cd /"""
"""Of them bcc and pgtrace look at no more, before anything is compiled."""
NO_BTF = "mount -t tmpfs none /sys/kernel/btf; mount -t tmpfs none /boot"
KERNEL_WITH_HEADERS = """mount -t tmpfs none /sys/kernel
mkdir -p /sys/kernel/all/include/linux && touch /sys/kernel/all/include/linux/kconfig.h
head -c 3M /dev/urandom >/sys/kernel/all/include/linux/types.h
tar -C /sys/kernel/all -cJf /sys/kernel/kheaders.tar.xz ."""
"""As one built with CONFIG_IKHEADERS: but for this file there is nothing in sysfs any more."""


@pytest.fixture(params=["--engine bcc", ""], ids=["asked for", "by itself"])
def options(request: pytest.FixtureRequest) -> list[str]:
    asked: str = request.param
    return asked.split()


def attach(connection: Connection, options: list[str], mounts: str, **settings: Any) -> Ended:
    """Where there is no BTF, so that bcc is needed whether it is asked for or not."""
    command = without(f"{NO_BTF}; {mounts}")
    return run("attach", connection.info.backend_pid, *options, command=command, **settings)


def test_no_headers(connection: Connection, options: list[str]) -> None:
    ended = attach(connection, options, NO_HEADERS)
    check(ended, 5, f"headers are not in {HEADERS}: apt-get install linux-headers-{RELEASE}")
    assert ("no BTF" in ended.err) is (not options)


def test_headers_of_another_version(connection: Connection, options: list[str]) -> None:
    ended = attach(connection, options, SOME_HEADERS.format("5.4.0-1-amd64"))
    says = f"{HEADERS} are those of kernel 5.4.0-1-amd64, but {RELEASE} runs.*linux-headers-"
    check(ended, 5, says)


@pytest.mark.parametrize("library", ["libclang-cpp", "libbcc"])
def test_no_clang_runtime(connection: Connection, options: list[str], library: str) -> None:
    mounts = f"""{SOME_HEADERS.format(RELEASE)}
for file in /usr/lib/*/{library}.so.*; do mount --bind /dev/null $(realpath $file); done"""
    check(attach(connection, options, mounts), 5, f"bcc cannot be loaded: .*{library}.*apt-get")


def test_full_tmp(connection: Connection, options: list[str]) -> None:
    """Only where bcc unpacks headers; else it writes nothing."""
    mounts = f"{NO_HEADERS}; {KERNEL_WITH_HEADERS}; {hide('/tmp', 'size=1M')}"
    check(attach(connection, options, mounts), 5, "/tmp is full: .*headers.*TMPDIR")


def test_no_room_for_a_temporary_file(connection: Connection, options: list[str]) -> None:
    """Python looks in all of these."""
    full = "; ".join(
        f"{hide(at, 'nr_inodes=30')}; (cd {at} && touch $(seq 30)) 2>/dev/null"
        for at in ("/tmp", "/var/tmp")
    )
    mounts = f"{NO_HEADERS}; {KERNEL_WITH_HEADERS}; {full}; cd /proc"
    ended = attach(connection, options, mounts, env=NOT_COVERED)
    check(ended, 5, "/tmp is full: .*headers.*TMPDIR")


def test_the_compilers_first_error_is_shown(connection: Connection, options: list[str]) -> None:
    """These headers are too few. All that it says comes with -v."""
    ended = attach(connection, options, SOME_HEADERS.format(RELEASE))
    check(ended, 5, r"could not compile the kernel's types: .*error: .*file not found.*-v")
    ended = attach(connection, [*options, "-v"], SOME_HEADERS.format(RELEASE))
    assert ended.code == 5
    assert ended.err.count("\n") > 5
    assert "#include" in ended.err


def test_what_lies_in_the_working_directory_is_not_run(
    connection: Connection, tmp_path: Path
) -> None:
    """As it may be anybody's, and pgtrace runs as root."""
    (tmp_path / "bcc.py").write_text("raise SystemExit(42)")
    mounts = without(f"{NO_BTF}; {SOME_HEADERS.format(RELEASE)}; cd {tmp_path}")
    command = [*mounts[: -len(PGTRACE)], sys.executable, "-P", "-m", "pgtrace"]
    ended = run("attach", connection.info.backend_pid, command=command)
    check(ended, 5, "could not compile")


def test_no_other_way_in_than_its_own(connection: Connection) -> None:
    ended = run("attach", connection.info.backend_pid, "--engine", "bcc", "--probe", "fentry")
    check(ended, 5, "headers|fentry.*the kernel's own BTF")


def test_the_package_is_the_distributions() -> None:
    assert (bcc_package.find() / "libbcc.py").is_file()


def test_both_readers_find_the_same_notes(cluster: PrivateCluster) -> None:
    """bcc's is a second witness: each probe, at as many sites."""
    from bcc import USDT

    theirs = {
        probe.name.decode(): probe.num_locations
        for probe in USDT(path=str(cluster.binary)).enumerate_probes()
    }
    assert theirs == Counter(site.name for site in binary.sites(cluster.binary))
    assert {"query__start", "statement__status"} <= theirs.keys()
