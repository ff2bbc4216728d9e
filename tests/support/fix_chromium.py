"""A browser, for what pages do in one."""

import shutil
from collections.abc import Iterator

import pytest

from chromium import COMMAND, Chromium


@pytest.fixture(scope="module")
def chromium() -> Iterator[Chromium]:
    """Skipped where there is none."""
    if shutil.which(COMMAND) is None:
        pytest.skip("no Chromium: apt-get install chromium")
    with Chromium() as browser:
        yield browser
