"""Which versions of PostgreSQL pgtrace is made for, and what is said of the others."""

import re
from functools import lru_cache

SUPPORTED = range(14, 20)
"""Major versions."""
KNOWN = f"{SUPPORTED[0]} to {SUPPORTED[-1]}"
"""The same in words."""


@lru_cache(maxsize=64)
def major_of(version: str | None) -> int | None:
    """Major version, such as 15 of `15.18` and 18 of `18beta1`."""
    digits = re.match(r"\d+", version or "")
    return int(digits[0]) if digits else None


def too_old(version: str | None) -> str | None:
    """Why no more than reads can be measured; None if the version is no reason, or not known."""
    major = major_of(version)
    if major is None or major >= SUPPORTED[0]:
        return None
    return f"PostgreSQL {version} is not supported, {KNOWN} are"


def too_new(version: str | None) -> str | None:
    """The warning for a version that came after pgtrace; None if it is no such."""
    major = major_of(version)
    if major is None or major <= SUPPORTED[-1]:
        return None
    return (
        f"PostgreSQL {version} is newer than pgtrace, which knows {KNOWN}: what its program offers "
        "is measured; compare the reads with EXPLAIN (ANALYZE, BUFFERS) before you rely on them"
    )
