"""Probes in real servers stand on what the kernel emulates, as another tool disassembles them."""

import re
import subprocess

import pytest

from pgtrace.engines import probes
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.postgres import binary

OF_QUERIES = {name.split()[0] for name in probes.FUNCTIONS_OF_QUERIES}
OF_AIO = ("pgaio_wref_wait", "smgrstartreadv")
FUNCTIONS = [
    *sorted({"CreateCheckPoint"} | OF_QUERIES),
    *(pytest.param(name, marks=pytest.mark.pg(">= 18")) for name in OF_AIO),
]
LONGEST = 15
"""Bytes of an instruction."""
EMULATED = re.compile(r"push +%r\w+|nop|j\w+ +.*")
MOVES_STACK = re.compile(r"(push|pop|call|j|ret|leave|enter)|.*%[er]?sp$")


def disassembled(file: str, begin: int, end: int) -> list[tuple[int, str]]:
    """Address and text of each instruction."""
    shown = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", f"--start-address={begin}",
         f"--stop-address={end}", file],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    found = re.findall(r"^ +([0-9a-f]+):\t(.*?) *$", shown, re.MULTILINE)
    return [(int(address, 16), text) for address, text in found]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_its_place_is_one_that_is_emulated(cluster: PrivateCluster, function: str) -> None:
    file = str(cluster.binary)
    address, start = binary.symbol_address(file, function), binary.symbol_offset(file, function)
    assert address is not None
    assert start is not None
    step = (binary.probe_offset(file, function) or 0) - start
    found = disassembled(file, address, address + step + LONGEST)
    (text,) = [text for at, text in found if at == address + step]
    before = [text for at, text in found if at < address + step]
    assert EMULATED.fullmatch(text)
    assert not any(MOVES_STACK.match(each) for each in before), before
