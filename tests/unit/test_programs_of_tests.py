"""The programs of known reads and writes, which tests start."""

import os

import pytest

from fix_reader import compiled


@pytest.mark.parametrize("name", ["reader", "uring_reader", "writer", "spinner"])
def test_it_compiles_without_a_warning(name: str) -> None:
    """Here, before virtual machines want it: they find it made (scripts/parts.py)."""
    assert os.access(compiled(name), os.X_OK)
