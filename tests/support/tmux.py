"""A program on a real terminal, driven as a person does it: by tmux, with a server of its own."""

import itertools
import os
import re
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from child import children_of, wait_for

_numbers = itertools.count()
_PROMPT = "ready$ "
_STATE = "#{alternate_on} #{cursor_flag} #{mouse_any_flag} #{mouse_sgr_flag} #{wrap_flag}"


class Tmux:
    """A shell in a terminal of this size; `environment` is the shell's, beside TERM. What it writes
    goes into its directory if `shell_files` is none."""

    def __init__(
        self,
        directory: Path,
        *,
        columns: int = 100,
        rows: int = 30,
        environment: dict[str, str] | None = None,
        shell_files: Path | None = None,
    ) -> None:
        self._name = f"pgtrace-{os.getpid()}-{next(_numbers)}"
        self._before = (shell_files or directory) / "before"
        chosen = {"LC_ALL": "C.UTF-8", "PS1": _PROMPT, **(environment or {})}
        words = [f"{name}={value}" for name, value in chosen.items()]
        self._tmux(
            "-f", "/dev/null", "new-session", "-d", "-x", columns, "-y", rows, "-c", directory,
            "env", *words, "bash", "--norc", "--noprofile",
        )  # fmt: skip
        wait_for(lambda: _PROMPT.strip() in self.screen())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._tmux("kill-server")

    def run(self, *command: object) -> None:
        """Type a command, with what tells afterwards how it ended, on an empty screen: of one
        before nothing is left there."""
        words = shlex.join(map(str, command))
        clear = r"printf '\033[H\033[2J'"
        typed = f'{clear}; stty -g > {self._before}; {words}; echo "ended" with $?'
        self._tmux("send-keys", "-l", typed)
        self.press("Enter")

    def press(self, *keys: str) -> None:
        """Press keys, by tmux's names."""
        self._tmux("send-keys", *keys)

    def type(self, text: str) -> None:
        """Type a text."""
        self._tmux("send-keys", "-l", text)

    def click(self, line: str, text: str) -> None:
        """With the left button on a text in the first line that has both, as xterm tells it."""

        def look() -> list[tuple[int, str]]:
            return [(y, s) for y, s in enumerate(self.lines(), 1) if line in s and text in s]

        y, shown = wait_for(look, instead=self.screen)[0]
        at = f"{shown.index(text) + 1};{y}"
        for kind in "Mm":
            hexadecimal = f"\x1b[<0;{at}{kind}".encode().hex(" ").split()
            self._tmux("send-keys", "-H", *hexadecimal)

    def resize(self, columns: int, rows: int) -> None:
        """Give the terminal another size."""
        self._tmux("resize-window", "-x", columns, "-y", rows)

    def screen(self) -> str:
        """What a person sees."""
        return self._tmux("capture-pane", "-p")

    def colours(self) -> str:
        """The same, with what switches colours and styles."""
        return self._tmux("capture-pane", "-p", "-e")

    def lines(self) -> list[str]:
        """What a person sees, line by line."""
        return self.screen().splitlines()

    def shows(self, *texts: str) -> str:
        """Wait until the screen has all of them, and return it."""

        def look() -> str:
            screen = self.screen()
            return screen if all(text in screen for text in texts) else ""

        found: str = wait_for(look, instead=self.screen)
        return found

    def pid(self, name: str) -> int:
        """Of the shell's child."""
        shell = int(self._tmux("display", "-p", "#{pane_pid}"))
        (child,) = wait_for(lambda: children_of(shell), instead=lambda: name)
        return child

    def ended(self) -> int:
        """How the command ended, after which the terminal has to be as it was."""
        self.shows("ended with ")
        wait_for(lambda: self._tmux("display", "-p", _STATE).split() == ["0", "1", "0", "0", "1"])
        self.type(f'cmp {self._before} <(stty -g) && echo as "it" was')
        self.press("Enter")
        self.shows("as it was")
        found = re.search(r"ended with (\d+)", self.screen())
        assert found
        print(self.screen())
        return int(found[1])

    def _tmux(self, *words: object) -> str:
        command: Sequence[str] = ["tmux", "-L", self._name, *map(str, words)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout
