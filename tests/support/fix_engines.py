"""By which engine a test traces, and by which probe type.

On the host, by libbpf and tracepoints: its kernel lets nothing else in. In a virtual machine of
scripts/vm a test that is marked `vm` runs once by each engine that is to be had there; if it asks
for `way`, by each probe type of that engine. Keywords of the mark: `tracepoints` are a probe type,
too; `engines` are the only ones; `core` gives it that mark, but by tracepoints. What is marked
`real_time` does not run there.
"""

import os
import platform
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fix_markers import matches
from pgtrace.engines import EngineName, ProbeType
from pgtrace.libbpf import btf

IN_VM = "VM_SHARE" in os.environ
RELEASE = platform.release()
ENGINES: tuple[EngineName, ...] = ("libbpf", "bcc")


def engines(release: str = RELEASE) -> tuple[EngineName, ...]:
    """In a machine of this kernel; bcc where Debian 12's compiles the headers, of scripts/vm."""
    return ENGINES if matches(release, "< 6.2") else ENGINES[:1]


def ways(engine: str, release: str = RELEASE) -> tuple[ProbeType, ...]:
    """The probe types that there are in a machine of this kernel, the best first."""
    if engine == "bcc" or matches(release, "< 5.17"):
        return ("tracepoint", "kprobe")
    return ("fentry", "tracepoint", "kprobe")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    mark = metafunc.definition.get_closest_marker("vm")
    if not IN_VM or mark is None:
        return
    its = [engine for engine in engines() if engine in mark.kwargs.get("engines", ENGINES)]
    metafunc.parametrize("engine", its, indirect=True)
    if "way" in metafunc.fixturenames:
        # Of any of them; what does not go together is deselected below
        of_any = dict.fromkeys(way for engine in its for way in ways(engine))
        if not mark.kwargs.get("tracepoints"):
            del of_any["tracepoint"]
        # Every run has them by tracepoints on the host
        core = {way for way in of_any if mark.kwargs.get("core") and way != "tracepoint"}
        every = [pytest.param(way, marks=[pytest.mark.core] * (way in core)) for way in of_any]
        metafunc.parametrize("way", every, indirect=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    out = [item for item in items if IN_VM and not _can_be_here(item)]
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in out]


def _can_be_here(item: pytest.Item) -> bool:
    given = item.callspec.params if hasattr(item, "callspec") else {}
    if "engine" in given and "way" in given and given["way"] not in ways(given["engine"]):
        return False
    return item.get_closest_marker("real_time") is None


@pytest.fixture(scope="session", autouse=True)
def engine(request: pytest.FixtureRequest) -> Iterator[EngineName]:
    """bcc traces where there is no BTF, also where no test asks for it: nothing else could load a
    program that reads the kernel's fields.

    Behind an empty mount over /sys/kernel/btf, libbpf finds none in any other place either.
    """
    name: EngineName = getattr(request, "param", "libbpf")
    if not IN_VM:
        yield name
        return
    place = Path(btf.SYSFS)
    assert btf.of_kernel() == place
    if name == "libbpf":
        yield name
        return
    subprocess.run(["mount", "-t", "tmpfs", "none", place.parent], check=True)
    try:
        assert btf.of_kernel() is None
        yield name
    finally:
        subprocess.run(["umount", place.parent], check=True)


@pytest.fixture
def way(request: pytest.FixtureRequest) -> ProbeType:
    found: ProbeType = getattr(request, "param", "tracepoint")
    return found
