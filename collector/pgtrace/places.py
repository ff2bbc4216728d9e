"""What a file is, as reports name it."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from .capture import Kind
from .engines import File


class Place(NamedTuple):
    """What was read; None is what is not known, or not asked for."""

    kind: Kind
    tablespace: str | None = None
    relation: str | None = None


class Places:
    """By the index in Engine.files()."""

    def __init__(self, files: Callable[[], Sequence[File]]) -> None:
        self._files = files

    def place(self, file: int) -> Place:
        """What that file is."""
        return Place(self._files()[file].kind)
