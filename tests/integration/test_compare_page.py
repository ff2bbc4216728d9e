"""The page of pgtrace compare in headless Chromium: it fits, loads nothing, and runs nothing.

PGTRACE_PICTURES=DIR keeps pictures of it there, to be looked at.
"""

import os
from pathlib import Path

import msgspec
import pytest

from captures import HOSTILE, HOSTILE_SHOWN
from chromium import Chromium
from pgtrace.__main__ import main
from pgtrace.files import documents
from pgtrace.model.capture import Host, Server
from seeded_captures import at_once, seeded_capture

TEXT = HOSTILE.replace("\ud800", "")
SHOWN = HOSTILE_SHOWN.replace("\\ud800", "")
"""A half of a surrogate pair is in no file."""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything that may be typed by somebody, in two captures that differ in much."""
    folder = tmp_path_factory.mktemp("page")
    files = []
    for name, slower in (("a", 1.0), ("b", 3.0)):
        capture = at_once(
            seeded_capture(
                f"{name} 1", text=TEXT, tablespace=TEXT, relation=TEXT, calls=20.0 * slower,
                pattern="random" if name == "a" else "sequential", query_id=-(2**63),
            ),
            seeded_capture(
                f"{name} 2", text="select * from t where id = $1 and " * 40, tablespace="ssd2",
                slower=slower, cached=0.2 * slower,
            ),
        )  # fmt: skip
        capture = msgspec.structs.replace(
            capture, host=Host(f"6.{slower}{TEXT}", 2), server=Server(f"15{TEXT}{name}"),
            partial=[f"{TEXT}: {TEXT}"],
        )  # fmt: skip
        files.append(folder / f"{name}<img src=x>\u202e.json")
        documents.write(capture, files[-1])
    out = folder / "page.html"
    assert main(["compare", *map(str, files), "--format", "html", "-o", str(out),
                 "--fail-if", "mean > 5x"]) == 0  # fmt: skip
    return out


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 800, 1600])
def test_the_page_fits_and_hostile_text_stands_there(
    chromium: Chromium, page: Path, width: int, dark: bool
) -> None:
    shown = chromium.open(page, width=width, dark=dark)
    if pictures := os.environ.get("PGTRACE_PICTURES"):
        Path(pictures).mkdir(parents=True, exist_ok=True)
        shown.picture(Path(pictures, f"compare-{width}-{'dark' if dark else 'light'}.png"))
    assert shown.run("document.documentElement.scrollWidth") <= width
    assert shown.run("document.querySelectorAll('img').length") == 0
    text = shown.run("document.body.textContent")
    assert SHOWN in text
    assert "\u202e" not in text
    assert "Statement -9223372036854775808" in text
    assert shown.complaints() == []
    assert chromium.events
    assert set(shown.requests()) == {page.as_uri()}
