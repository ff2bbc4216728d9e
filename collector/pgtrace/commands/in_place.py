"""Lines at the end of a terminal, in whose place others come."""

import os
import sys
from collections.abc import Sequence


class InPlace:
    """What stdout shows of something that is not over; a file or a pipe gets each state of it."""

    def __init__(self) -> None:
        self.possible = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._rows = 0

    def draw(self, lines: Sequence[str]) -> None:
        """In the place of what was drawn last. What the terminal has no room for is left out."""
        if not self.possible:
            for line in lines:
                print(line, flush=True)
            return
        from rich.cells import cell_len, set_cell_size

        columns, rows = _size()
        shown = [
            set_cell_size(line, columns) if cell_len(line) > columns else line
            for line in lines[: rows - 1]
        ]
        # Line by line over the old ones: a terminal that was emptied first would flicker
        print(
            _back(self._rows), *(f"\033[2K{line}\n" for line in shown), "\033[J",
            sep="", end="", flush=True,
        )  # fmt: skip
        self._rows = len(shown)

    def clear(self) -> None:
        """Leave the place to others."""
        if self._rows:
            print(_back(self._rows), "\033[J", sep="", end="", flush=True)
            self._rows = 0


def _size() -> tuple[int, int]:
    """Columns and rows, as the terminal itself has them: LINES and COLUMNS, which shutil believes,
    may be those of another one, and a line too many would leave what cannot be cleared.
    """
    columns, rows = os.get_terminal_size(sys.stdout.fileno())
    return columns or 80, rows or 24


def _back(rows: int) -> str:
    return f"\r\033[{rows}A" if rows else ""
