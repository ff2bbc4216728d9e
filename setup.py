"""Build pgtrace: compile bpf/ into the CO-RE object that ships inside the package."""

import platform
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
SOURCE = ROOT / "bpf" / "pgtrace.bpf.c"
TYPES = ROOT / "bpf" / "types.bcc.c"
OBJECT = ROOT / "collector" / "pgtrace" / "objects" / "pgtrace.bpf.o"
TARGETS = {"x86_64": ("x86", "x86_64-linux-gnu"), "aarch64": ("arm64", "aarch64-linux-gnu")}


def compile_bpf() -> None:
    """Compile bpf/ with clang; SystemExit in one line if that cannot be."""
    clang = shutil.which("clang")
    if clang is None:
        sys.exit(
            "pgtrace: clang is needed to build: apt-get install clang libbpf-dev, or "
            "dnf install clang libbpf-devel"
        )
    machine = platform.machine()
    if machine not in TARGETS:
        sys.exit(f"pgtrace: cannot be built for {machine}, only for {' and '.join(TARGETS)}")
    arch, triplet = TARGETS[machine]
    places = ("/usr/include", "/usr/local/include", f"/usr/include/{triplet}")
    if not any((Path(place) / "bpf/usdt.bpf.h").exists() for place in places):
        sys.exit(
            "pgtrace: libbpf's headers are needed to build: apt-get install libbpf-dev, or "
            "dnf install libbpf-devel"
        )
    OBJECT.parent.mkdir(exist_ok=True)
    shutil.copyfile(TYPES, OBJECT.with_name(TYPES.name))  # compiled on the host, if it has no BTF
    command = [
        clang, "-g", "-O2", "-Wall", "-Werror", "-target", "bpf", "-mcpu=v3",
        f"-D__TARGET_ARCH_{arch}", f"-I/usr/include/{triplet}",
        f"-ffile-prefix-map={ROOT}=.", "-c", str(SOURCE), "-o", str(OBJECT),
    ]  # fmt: skip
    if subprocess.run(command, check=False).returncode != 0:
        sys.exit("pgtrace: clang could not compile bpf/pgtrace.bpf.c (its messages are above)")


class BuildBpf(build_py):
    """build_py with the in-kernel half compiled first, so that it is found as package data."""

    def run(self) -> None:
        """Compile, then build as usual."""
        compile_bpf()
        super().run()


class BinaryDistribution(Distribution):
    """Not pure Python, although nothing in it is an extension of Python."""

    def has_ext_modules(self) -> bool:
        """Tell setuptools to build for this platform."""
        return True


class PlatformWheel(bdist_wheel):
    """The object reads registers of one architecture; nothing in it depends on the Python."""

    def finalize_options(self) -> None:
        """Let the wheel be of one platform."""
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self) -> tuple[str, str, str]:
        """Any Python 3, this platform."""
        return "py3", "none", super().get_tag()[2]


setup(
    package_dir={"": "collector"},
    packages=[
        ".".join(p.parent.relative_to(ROOT / "collector").parts)
        for p in sorted((ROOT / "collector" / "pgtrace").rglob("__init__.py"))
    ],
    package_data={
        "pgtrace": [
            "objects/*.bpf.o",
            "objects/*.bcc.c",
            "postgres/queries/*.sql",
            "postgres/wait_event_names/*.txt",
            "py.typed",
            "reporters/html/assets/*",
            "reporters/html/assets/uplot/*",
        ]
    },
    # Where a shell and man look, if pgtrace is installed in /usr, /usr/local or ~/.local
    data_files=[
        ("share/bash-completion/completions", ["docs/completions/pgtrace"]),
        ("share/zsh/site-functions", ["docs/completions/_pgtrace"]),
        ("share/fish/vendor_completions.d", ["docs/completions/pgtrace.fish"]),
        ("share/man/man1", ["docs/man/pgtrace.1"]),
    ],
    distclass=BinaryDistribution,
    cmdclass={"build_py": BuildBpf, "bdist_wheel": PlatformWheel},
)
