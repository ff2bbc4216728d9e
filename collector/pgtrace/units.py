"""Numbers as people read them: durations, sizes, counts, shares. In: nanoseconds and bytes."""

from datetime import datetime
from math import floor, log10

_TIMES = (("ns", 1), ("µs", 10**3), ("ms", 10**6), ("s", 10**9))
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def _decimals(value: float, digits: int) -> int:
    """How many decimals show `value` with `digits` significant digits; 0 or more."""
    whole = len(str(int(value))) if value >= 1 else 1
    return max(0, digits - whole)


def _scale(ns: float, digits: int) -> tuple[str, int, int]:
    """Return unit, its size in ns, and decimals; the unit is that of the rounded value."""
    for unit, size in _TIMES:
        value = ns / size
        decimals = _decimals(value, digits) if size > 1 or ns != int(ns) else 0
        shown = round(value, decimals)
        if shown < 1000 or unit == "s":
            return unit, size, _decimals(shown, digits) if decimals else 0
    raise AssertionError("seconds hold everything")


def duration(ns: float, digits: int = 3) -> str:
    """Show `ns`, which is not negative, with at least `digits` significant digits: `14.5 µs`.

    Whole units are never rounded away: two digits of 131 µs are `131 µs`.
    """
    unit, size, decimals = _scale(ns, digits)
    return f"{ns / size:,.{decimals}f} {unit}"


def duration_beside(ns: float, other: float) -> str:
    """Show `ns` in the unit of the duration `other`, if that leaves two digits of it.

    So that `1.37 s of 4.33 s` and `0.47 s` can be compared at a glance.
    """
    unit, size, decimals = _scale(other, 3)
    if ns == 0:
        return f"0 {unit}"
    decimals = min(decimals, _decimals(ns / size, 3))
    if ns / size * 10**decimals < 9.5:
        return duration(ns)
    return f"{ns / size:,.{decimals}f} {unit}"


def bucket(low_ns: int) -> str:
    """Label a power of two by its lower bound: `8.2 µs`, `131 µs`, `1.05 ms`."""
    unit, size, decimals = _scale(low_ns, 3)
    if unit == "µs":
        decimals = min(decimals, 1)
    return f"{low_ns / size:,.{decimals}f} {unit}"


def size(number: float) -> str:
    """Show bytes, not negative, with binary units: `737.6 MiB`, `512 B`."""
    for unit in _SIZES:
        decimals = 0 if unit == "B" else 1
        if round(number, decimals) < 1024 or unit == _SIZES[-1]:
            return f"{number:,.{decimals}f} {unit}"
        number /= 1024
    raise AssertionError("the largest unit holds everything")


def count(number: int) -> str:
    """Show a count with thousands separators: `94,418`."""
    return f"{number:,}"


def rate(per_second: float) -> str:
    """Show bytes per second as storage is sold: `213 MB/s`."""
    return f"{number(per_second / 1e6)} MB/s"


def number(value: float) -> str:
    """Show a number that is not negative with three digits: `0.0131`, `4.61`, `25.2`, `1,234`.

    Below a millionth and from ten millions on it has an exponent: `2.44e-11`.
    """
    if not value:
        return "0"
    if not 1e-6 <= value < 1e7:
        return f"{value:.2e}"
    decimals = 2 - floor(log10(float(f"{value:.2e}")))
    return f"{value:,.{max(0, decimals)}f}"


def percent(part: float, whole: float) -> str:
    """Show a share in whole percent; of nothing, every share is `0 %`."""
    return f"{100 * part / whole if whole else 0:.0f} %"


def share(part: float) -> str:
    """Percent, so that neither a small part nor a small rest is rounded away: `1.1 %`, `25 %`."""
    if 0 < part < 0.0005:
        return "<0.1 %"
    if 0.9995 <= part < 1:
        return ">99.9 %"
    exact = part in (0, 1) or 0.0995 <= part < 0.995
    return f"{100 * part:.{0 if exact else 1}f} %"


def stamp(moment: datetime) -> str:
    """A moment in UTC, as captures have it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
