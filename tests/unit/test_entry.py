"""Where a function's entry takes a probe that the kernel emulates: what is not certain is none."""

import random
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrace.postgres import x86
from pgtrace.postgres.entry import MOST_CODE, place

ENDBR64, MOV_RAX, MOVSLQ = "f30f1efa", "488b05514a4000", "48634624"
MOV_ESI_TO_68 = "897768"
MOV_1_TO_ESI = "be01000000"
JMP = "e90000f000"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("55", 0),
        ("4157", 0),
        ("90", 0),
        ("eb10", 0),
        (ENDBR64 + "55", 4),
        (ENDBR64 + "4154", 4),
        (MOV_RAX + "4885c0" + "744a", 10),
        (ENDBR64 + MOV_RAX + "4885c0" + "0f8410000000", 14),
        (ENDBR64 + MOVSLQ + "55", 8),
        (ENDBR64 + MOV_ESI_TO_68 + "55", 7),
        ("", None),
        (ENDBR64, None),
        (ENDBR64 + MOV_1_TO_ESI + "55", None),  # takes an argument away
        ("4883ec08" + "55", None),  # sub $8,%rsp takes the return address away
        ("488d6424f8" + "55", None),  # lea -8(%rsp),%rsp, as well
        ("488b3d514a4000" + "55", None),  # mov a variable,%rdi
        ("ffd0" + "55", None),  # call *%rax
        (MOVSLQ[:6] + "55", None),
    ],
)
def test_it_is_the_first_that_is_emulated(code: str, expected: int | None) -> None:
    assert place(bytes.fromhex(code).ljust(MOST_CODE, b"\xcc")) == expected


@pytest.mark.parametrize(
    ("function", "code", "expected"),
    [
        ("pgaio_wref_wait", ENDBR64 + "8b7704" + "48c1e620" + JMP, 11),
        ("smgrstartreadv", ENDBR64 + "41b801000000" + "55", 10),  # mov $1,%r8d
        ("smgrstartreadv", ENDBR64 + "bf01000000" + "55", None),  # mov $1,%edi
        ("smgrstartreadv", ENDBR64 + MOV_1_TO_ESI + "55", None),
        ("smgrstartreadv", ENDBR64 + "41b901000000" + "55", None),  # mov $1,%r9d
    ],
)
def test_what_is_not_looked_at_may_be_lost(function: str, code: str, expected: int | None) -> None:
    assert place(bytes.fromhex(code).ljust(MOST_CODE, b"\xcc"), function) == expected


@given(st.binary(max_size=MOST_CODE), st.sampled_from(["", "smgrstartreadv"]))
def test_no_code_is_an_error(code: bytes, function: str) -> None:
    found = place(code, function)
    assert found is None or 0 <= found < len(code)


REGISTER = {
    name + suffix: number
    for number, name in enumerate(["ax", "cx", "dx", "bx", "sp", "bp", "si", "di"])
    for name, suffix in ((f"r{name}", ""), (f"e{name}", ""), (name, ""))
} | {f"r{number}{suffix}": number for number in range(8, 16) for suffix in ("", "d", "w")}


def changed(text: str) -> int | None:
    """The register to which an instruction of objdump's writes."""
    name, _, operands = re.sub(r"^rex(\.\w+)? | *#.*", "", text).partition(" ")
    target = re.search(r"(?:^|,)%(\w+)$", operands.strip())
    return REGISTER[target[1]] if target and not name.startswith(("cmp", "test")) else None


def test_instructions_are_those_of_objdump(tmp_path: Path) -> None:
    """How long each is, and to which register it writes."""
    draw = random.Random(7)
    opcodes = [
        *(bytes([opcode]) for opcode in (1, 3, 9, 11, 0x21, 0x29, 0x2B, 0x31, 0x39, 0x3B, 0x63,
          0x81, 0x83, 0x85, 0x89, 0x8B, 0x8D, 0xB8, 0xBE, 0xC1, 0xC7)),
        *(b"\x0f" + bytes([opcode]) for opcode in (0xB6, 0xB7, 0xBE, 0xBF)),
    ]  # fmt: skip
    known, code = [], b""
    while len(known) < 3000:
        prefix = draw.choice([b"", b"", b"\x66"]) + draw.choice(
            [b"", bytes([draw.randrange(64, 80)])]
        )
        one = prefix + draw.choice(opcodes) + draw.randbytes(12)
        found = x86.decode(one, 0)
        if found:
            known.append((len(code), found))
            code += one[: found.length]
    (tmp_path / "code").write_bytes(code)
    listing = subprocess.run(
        ["objdump", "-D", "-b", "binary", "-m", "i386:x86-64", "--no-show-raw-insn", "code"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    texts = {
        int(at, 16): text for at, text in re.findall(r"^ +([0-9a-f]+):\t(.*?) *$", listing, re.M)
    }
    assert list(texts) == [at for at, _ in known]
    for at, found in known:
        assert found.changes == changed(texts[at]), texts[at]
