"""Files of lab results, read: which experiment one is of, and what that has in it."""

from pathlib import Path

import msgspec

from ..files import documents
from ..model.capture import Capture
from ..model.decoding import decode_lab_result
from ..model.lab_result import Result
from . import EXPERIMENTS
from .experiments import result_of


class _Head(msgspec.Struct):
    experiment: str


def load_any(path: Path | str) -> Capture | Result:
    """Read a capture or a lab result, as documents.load()."""
    return documents.load_any(path, decode)


def decode(raw: bytes) -> Result:
    """Raises ValueError or RecursionError if it is no lab result."""
    name = msgspec.json.decode(raw, type=_Head).experiment
    if name not in EXPERIMENTS:
        raise ValueError(f"{name[:80]!r} is no experiment that is known here - at `$.experiment`")
    return decode_lab_result(raw, result_of(name))
