"""Durations, sizes, counts and shares as the screens of the command line show them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrace import units

TIMES = {"ns": 1, "µs": 10**3, "ms": 10**6, "s": 10**9}
SIZES = {"B": 0, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40, "PiB": 50, "EiB": 60}


def parse(text: str) -> tuple[str, str]:
    number, unit = text.split(" ")
    return number.replace(",", ""), unit


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"), (7, "7 ns"), (999, "999 ns"), (14.53, "14.5 ns"), (1000, "1.00 µs"),
        (14_464, "14.5 µs"), (86_000, "86.0 µs"), (999_940, "1.00 ms"), (999_949.9, "1.00 ms"),
        (1_048_576, "1.05 ms"), (9_996, "10.0 µs"), (4_330_000_000, "4.33 s"),
        (999_999_999, "1.00 s"), (72 * 10**9, "72.0 s"), (4_330 * 10**9, "4,330 s"),
        (999.7, "1.00 µs"),
    ],
)  # fmt: skip
def test_a_duration_has_three_significant_digits(ns: float, text: str) -> None:
    assert units.duration(ns) == text


@pytest.mark.parametrize(
    ("ns", "text"),
    [(9_300, "9.3 µs"), (86_016, "86 µs"), (131_072, "131 µs"), (2_300_000, "2.3 ms"),
     (9_960, "10 µs"), (999_600, "1.0 ms"), (640, "640 ns")],
)  # fmt: skip
def test_two_digits_never_round_whole_units_away(ns: int, text: str) -> None:
    assert units.duration(ns, 2) == text


@given(st.one_of(st.integers(0, 2**63), st.floats(0, 1e18)), st.integers(2, 4))
def test_a_duration_says_what_it_was_given(ns: float, digits: int) -> None:
    number, unit = parse(units.duration(ns, digits))
    shown = float(number) * TIMES[unit]
    assert abs(shown - ns) <= max(0.5 * 10 ** (1 - digits) * ns, 0.5 * 10 ** (1 - digits)) * 1.0001
    assert unit == "s" or float(number) < 1000


@given(st.integers(1000, 999 * 10**9))
def test_a_duration_of_microseconds_and_more_has_exactly_three_digits(ns: int) -> None:
    number, _ = parse(units.duration(ns))
    assert len(number.replace(".", "").lstrip("0")) == 3


@pytest.mark.parametrize(
    ("ns", "other", "text"),
    [
        (1_370_000_000, 4_330_000_000, "1.37 s"), (470_000_000, 4_330_000_000, "0.47 s"),
        (50_200_000, 4_330_000_000, "50.2 ms"), (0, 4_330_000_000, "0 s"),
        (43_300_000_000, 4_330_000_000, "43.3 s"), (900_000, 12_300_000, "900 µs"),
        (1_000_000, 12_300_000, "1.0 ms"),
    ],
)  # fmt: skip
def test_a_part_is_shown_in_the_unit_of_the_whole(ns: int, other: int, text: str) -> None:
    assert units.duration_beside(ns, other) == text


@given(st.integers(1, 10**13), st.integers(1, 10**13))
def test_a_part_is_shown_within_5_percent(ns: int, other: int) -> None:
    number, unit = parse(units.duration_beside(ns, other))
    assert abs(float(number) * TIMES[unit] - ns) <= 0.053 * ns


def test_buckets_are_labelled_as_on_the_promised_screen() -> None:
    labels = [units.bucket(2**n) for n in range(9, 24)]
    assert labels == [
        "512 ns", "1.0 µs", "2.0 µs", "4.1 µs", "8.2 µs", "16.4 µs", "32.8 µs", "65.5 µs",
        "131 µs", "262 µs", "524 µs", "1.05 ms", "2.10 ms", "4.19 ms", "8.39 ms",
    ]  # fmt: skip
    assert units.bucket(0) == "0 ns"


def test_no_two_buckets_have_the_same_label() -> None:
    assert len({units.bucket(low) for low in [0, *(2**n for n in range(41))]}) == 42


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (1023, "1,023 B"), (1024, "1.0 KiB"), (773_472_256, "737.6 MiB"),
     (8192, "8.0 KiB"), (1024 * 1024 - 1, "1.0 MiB"), (2**70, "1,024.0 EiB")],
)  # fmt: skip
def test_sizes_have_binary_units(number: int, text: str) -> None:
    assert units.size(number) == text


@given(st.integers(0, 2**63))
def test_a_size_says_what_it_was_given(number: int) -> None:
    shown, unit = parse(units.size(number))
    step = 1 << SIZES[unit]
    assert abs(float(shown) * step - number) <= 0.0501 * step
    assert float(shown) < 1024


@given(st.integers(0, 2**63))
def test_a_count_keeps_every_digit(number: int) -> None:
    text = units.count(number)
    assert int(text.replace(",", "")) == number
    assert re.fullmatch(r"\d{1,3}(,\d{3})*", text)


def test_shares_are_whole_percent() -> None:
    assert units.percent(1, 3) == "33 %"
    assert units.percent(1, 1000) == "0 %"
    assert units.percent(0, 0) == "0 %"
    assert units.percent(9, 3) == "300 %"


@pytest.mark.parametrize(
    ("part", "text"),
    [(0, "0 %"), (0.0004, "<0.1 %"), (0.0112, "1.1 %"), (0.0994, "9.9 %"), (0.0996, "10 %"),
     (0.25, "25 %"), (0.9949, "99 %"), (0.997, "99.7 %"), (0.9999, ">99.9 %"), (1, "100 %")],
)  # fmt: skip
def test_neither_a_small_part_nor_a_small_rest_is_rounded_away(part: float, text: str) -> None:
    assert units.share(part) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.0131, "0.0131"), (0.957, "0.957"), (0.9996, "1.00"), (4.61, "4.61"),
     (9.996, "10.0"), (25.2, "25.2"), (999.6, "1,000"), (1234, "1,234"), (1e-6, "0.00000100"),
     (2.44e-11, "2.44e-11"), (6_870_618_715, "6.87e+09")],
)  # fmt: skip
def test_a_number_has_three_digits(value: float, text: str) -> None:
    assert units.number(value) == text
