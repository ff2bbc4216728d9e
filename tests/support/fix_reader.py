"""The programs of known reads and of known writes: reader.c, writer.c, compiled here."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import pytest

DATA_BYTES = 16 << 20


class Counts(NamedTuple):
    """What the reader's calls returned, and how long all of them took."""

    full: int
    short: int
    failed: int
    bytes: int
    nanoseconds: int
    syncs: int = 0
    """Of the writer: its calls of fsync and the like."""


class Reader:
    """A started reader, which has made none of its reads. Attach; go(); detach; leave the block."""

    def __init__(self, binary: Path, file: Path, *options: object) -> None:
        self.process = subprocess.Popen(
            [binary, *map(str, options), file],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        if self._line() != "ready":
            raise RuntimeError(f"the reader ended with {self.process.wait()}")

    @property
    def pid(self) -> int:
        return self.process.pid

    def begin(self) -> None:
        """Let it read, without waiting for it."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def counts(self) -> Counts:
        """Wait until it has read."""
        return Counts(*map(int, self._line().split()))

    def go(self) -> Counts:
        """Let it make its reads; it stays alive after them."""
        self.begin()
        return self.counts()

    def finish(self) -> None:
        """Let it end; kill it if it has not read yet."""
        assert self.process.stdin is not None
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.finish()


@pytest.fixture(scope="session")
def reader_binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _compiled("reader", tmp_path_factory)


@pytest.fixture(scope="session")
def writer_binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _compiled("writer", tmp_path_factory)


def _compiled(name: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler: apt-get install clang")
    binary = tmp_path_factory.mktemp(name) / name
    source = Path(__file__).with_name(f"{name}.c")
    subprocess.run(
        [compiler, "-O2", "-Wall", "-Wextra", "-Werror", "-o", binary, source], check=True
    )
    return binary


@pytest.fixture(scope="session")
def data_file(disk_directory: Path) -> Path:
    """16 MiB on a real disk, written out."""
    path = disk_directory / "data_file"
    with path.open("wb") as file:
        file.write(os.urandom(DATA_BYTES))
        os.fsync(file.fileno())
    return path


@pytest.fixture
def reader(reader_binary: Path) -> Iterator[Callable[..., Reader]]:
    """Start a reader: `reader(data_file, "--call", "preadv", "--count", 104_729, "--warm")`."""
    yield from _starter(reader_binary)


@pytest.fixture
def writer(writer_binary: Path) -> Iterator[Callable[..., Reader]]:
    """Start a writer: `writer(file, "--call", "pwritev", "--sync", "fdatasync", "--every", 10)`."""
    yield from _starter(writer_binary)


def _starter(binary: Path) -> Iterator[Callable[..., Reader]]:
    started: list[Reader] = []

    def start(file: Path, *options: object) -> Reader:
        started.append(Reader(binary, file, *options))
        return started[-1]

    yield start
    for one in started:
        one.finish()
