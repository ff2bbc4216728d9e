"""The in-kernel half is compiled for arm64, too, on which it was not run yet."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEADERS = Path("/usr/aarch64-linux-gnu/include")


def test_it_compiles_for_arm64(tmp_path: Path) -> None:
    """With the kernel's own headers of that machine: registers and system calls are others."""
    if not (HEADERS / "asm/ptrace.h").exists():
        pytest.skip("no headers of arm64: apt-get install linux-libc-dev-arm64-cross")
    clang = shutil.which("clang")
    if clang is None:
        pytest.skip("no clang: apt-get install clang")
    made = tmp_path / "arm64.o"
    flags = re.findall(r'"(-[gOWm]\S*)"', (ROOT / "setup.py").read_text())
    assert "-mcpu=v3" in flags
    subprocess.run(
        [
            *(clang, *flags, "-target", "bpf", "-D__TARGET_ARCH_arm64", f"-I{HEADERS}"),
            *("-c", ROOT / "bpf/pgtrace.bpf.c", "-o", made),
        ],
        check=True,
    )
    assert made.stat().st_size > 100_000
