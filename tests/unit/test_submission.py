"""The function that hands reads to I/O workers, which no symbol names: found in programs that were
built as servers are, and in no other."""

import platform
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from pgtrace.postgres import elf, entry, submission

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="x86-64's instructions")

PROGRAM = """
struct ops {{
    char waits; void *size, *begin;
    int (*submit)(unsigned short number, void **staged);
    int (*wait)(unsigned short number, void **staged);
}};
volatile int number, counted;
__attribute__((noinline)) static int hand_over(unsigned short number, void **staged)
{{ {first} return counted++ + number + (staged != 0); }}
int size(void) {{ return 1; }}
struct ops pgaio_worker_ops = {{ .size = size, .submit = hand_over }};
struct ops *pgaio_method_ops = &pgaio_worker_ops;
__attribute__((noinline)) int pgaio_submit_staged(void) {{ {calls} return number; }}
int main(void) {{ return pgaio_submit_staged() + (long)hand_over; }}
"""
ONE_CALL = "number += pgaio_method_ops->submit(number, 0);"
ANOTHER = "number += pgaio_method_ops->wait(number, 0);"
LINKED = {
    "moved": ("-pie",),
    "moved, packed": ("-pie", "-Wl,-z,pack-relative-relocs"),
    "not moved": ("-no-pie",),
}


def built(directory: Path, *flags: str, calls: str = ONE_CALL, first: str = "") -> Path:
    """The program, compiled as Debian's are."""
    source, binary = directory / "a.c", directory / "a"
    source.write_text(PROGRAM.format(calls=calls, first=first))
    code = ["-fPIE"] if "-pie" in flags else ["-fno-pie"]
    subprocess.run(
        ["gcc", "-O2", "-fcf-protection", "-rdynamic", *code, *flags, "-o", binary, source],
        check=True,
    )
    return binary


def found_in(binary: Path) -> int | None:
    with binary.open("rb") as stream:
        return elf.contents(stream.fileno(), submission.NAMES).submission


def of_function(binary: Path) -> int:
    """Where its entry takes a probe, by the debugger's table."""
    with binary.open("rb") as stream:
        read = ELFFile(stream)
        address = read.get_section_by_name(".symtab").get_symbol_by_name("hand_over")[0]["st_value"]
        (at,) = read.address_offsets(address)
        stream.seek(at)
        return int(at) + (entry.place(stream.read(entry.MOST_CODE), "submit") or 0)


@pytest.mark.parametrize("flags", LINKED.values(), ids=LINKED)
def test_found_by_the_call_and_the_table(tmp_path: Path, flags: tuple[str, ...]) -> None:
    binary = built(tmp_path, *flags)
    assert found_in(binary) == of_function(binary)
    subprocess.run(["strip", binary], check=True)
    assert found_in(binary) is not None


def test_at_an_instruction_that_costs_little(tmp_path: Path) -> None:
    binary = built(tmp_path, "-pie", first="for (int i = number; i; i--) __builtin_ia32_pause();")
    assert found_in(binary) == of_function(binary)


@pytest.mark.parametrize(
    "calls",
    [ONE_CALL + ANOTHER, "number++;", ANOTHER],
    ids=["two calls", "none", "of what the table does not have"],
)
@pytest.mark.parametrize("flags", LINKED.values(), ids=LINKED)
def test_what_is_not_certain_is_not_taken(
    tmp_path: Path, flags: tuple[str, ...], calls: str
) -> None:
    assert found_in(built(tmp_path, *flags, calls=calls)) is None


def test_without_a_name_it_is_not_looked_for(tmp_path: Path) -> None:
    binary = built(tmp_path, "-pie")
    with binary.open("rb") as stream:
        for name in submission.NAMES:
            assert elf.contents(stream.fileno(), [name]).submission is None
