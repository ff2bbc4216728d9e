"""docs/troubleshooting.md: each message that it explains is one that pgtrace prints."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "troubleshooting.md"
MESSAGES = re.findall(r"^### `(.+)`$", PAGE.read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def source() -> str:
    """All of it, strings that stand in several lines put together."""
    whole = "".join(path.read_text() for path in (ROOT / "collector/pgtrace").rglob("*.py"))
    return re.sub(r"\"\s*\n\s*f?\"", "", whole)


def test_there_are_some() -> None:
    assert len(MESSAGES) > 20
    assert len(set(MESSAGES)) == len(MESSAGES)


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_is_in_the_source(source: str, message: str) -> None:
    assert message in source
