"""The programs of known reads and writes: reader.c, uring_reader.c, writer.c, compiled here."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from child import Child
from kept import kept
from worker import Worker

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
    executors: int = 0
    """Of the reader by io_uring: its threads that executed requests."""


class Reader(Child):
    """A started reader, which has made none of its reads. Attach; go(); detach; leave the block."""

    def __init__(self, binary: Path, file: Path, *options: object) -> None:
        super().__init__(binary, *options, file)
        if self.line() != "ready\n":
            raise RuntimeError(f"the reader ended with {self.ended().code}")

    def begin(self) -> None:
        """Let it read, without waiting for it."""
        self.say("")

    def counts(self) -> Counts:
        """Wait until it has read."""
        return Counts(*map(int, self.line().split()))

    def go(self) -> Counts:
        """Let it make its reads; it stays alive after them."""
        self.begin()
        return self.counts()


@pytest.fixture(scope="session")
def reader_binary() -> Path:
    return compiled("reader")


@pytest.fixture(scope="session")
def writer_binary() -> Path:
    return compiled("writer")


@pytest.fixture(scope="session")
def uring_reader_binary() -> Path:
    return compiled("uring_reader")


def compiled(name: str) -> Path:
    """The program of this name that lies here. An emulated machine takes 20 seconds to make it."""
    compiler = shutil.which("cc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler: apt-get install clang")
    command = (compiler, "-O2", "-Wall", "-Wextra", "-Werror", "-xc", "-")
    source = Path(__file__).with_name(f"{name}.c").read_bytes()

    def make(to: Path) -> None:
        to.mkdir()
        subprocess.run([*command, "-o", to / name], input=source, check=True)

    return kept("programs", (name, command, source), make) / name


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


@pytest.fixture
def uring_reader(uring_reader_binary: Path) -> Iterator[Callable[..., Reader]]:
    """Start a reader by io_uring: `uring_reader(data_file, "async", 1000)`, "inline", or both."""
    yield from _starter(uring_reader_binary)


@pytest.fixture
def worker() -> Iterator[Worker]:
    with Worker() as one:
        yield one


def _starter(binary: Path) -> Iterator[Callable[..., Reader]]:
    started: list[Reader] = []

    def start(file: Path, *options: object) -> Reader:
        started.append(Reader(binary, file, *options))
        return started[-1]

    yield start
    for one in started:
        one.kill()
