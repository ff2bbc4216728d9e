"""An engine's object, of which nothing is in the kernel: what is let go of is noted."""

from types import SimpleNamespace
from typing import Any

PROGRAM: Any = SimpleNamespace(identity=(1, 2))
"""That all servers run."""


class Kept:
    """What of the probes that were attached was let go of."""

    attached = 0

    def __init__(self) -> None:
        self.gone: list[str] = []

    def since(self, before: int) -> list[str]:
        return ["the probe"]

    def let_go(self, links: list[str]) -> None:
        self.gone += links
