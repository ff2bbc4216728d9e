"""Where a function's entry takes a probe that the kernel emulates: what is not certain is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrace.postgres.entry import MOST_CODE, step

ENDBR64, MOV_RAX, MOVSLQ = "f30f1efa", "488b05514a4000", "48634624"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("55", 0),
        ("4157", 0),
        ("90", 0),
        (ENDBR64 + "55", 4),
        (ENDBR64 + "4154", 4),
        (MOV_RAX + "4885c0" + "744a", 10),
        (ENDBR64 + MOV_RAX + "4885c0" + "0f8410000000", 14),
        (ENDBR64 + MOVSLQ + "55", 8),
        ("", None),
        (ENDBR64, None),
        (ENDBR64 + "897768" + "55", None),  # mov %esi,0x68(%rdi), then whatever
        (ENDBR64 + "be01000000" + "55", None),  # mov $1,%esi takes an argument away
        ("4883ec08" + "55", None),  # sub $8,%rsp takes the return address away
        ("488b3d514a4000" + "55", None),  # mov a variable,%rdi
        ("48634624"[:6] + "55", None),
    ],
)
def test_it_is_the_first_that_is_emulated(code: str, expected: int | None) -> None:
    assert step(bytes.fromhex(code).ljust(MOST_CODE, b"\xcc")) == expected


@given(st.binary(max_size=MOST_CODE))
def test_no_code_is_an_error(code: bytes) -> None:
    found = step(code)
    assert found is None or 0 <= found < len(code)
