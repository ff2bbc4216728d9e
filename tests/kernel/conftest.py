"""The tests of tests/integration can be imported here, to run under another kernel.

With PGTRACE_TEST_ENGINE=bcc all of them run where there is no BTF: behind an empty mount over
/sys/kernel/btf, libbpf finds none in any other place either. So the engine is bcc, also where no
test asks for it: nothing else could load a program that reads the kernel's fields.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fix_markers import ENGINE
from pgtrace.libbpf import btf

sys.path.insert(0, str(Path(__file__).parents[1] / "integration"))


@pytest.fixture(scope="session", autouse=True)
def engine() -> Iterator[str]:
    """Which it is, by what this machine has of the kernel's types."""
    place = Path(btf.SYSFS)
    assert btf.of_kernel() == place
    if ENGINE == "libbpf":
        yield ENGINE
        return
    subprocess.run(["mount", "-t", "tmpfs", "none", place.parent], check=True)
    try:
        assert btf.of_kernel() is None
        yield ENGINE
    finally:
        subprocess.run(["umount", place.parent], check=True)
