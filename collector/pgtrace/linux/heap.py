"""Memory that was freed, and is to go back to the host."""

import ctypes


def give_back() -> None:
    """Of glibc, which keeps it for itself: malloc_trim(3). Where there is none, nothing is done."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
