"""Which servers the command line means, of those that are there."""

import os
import shlex
from pathlib import Path

from child import Child, wait_for
from pgtrace.commands.find_target import _how_to_name, _named
from pgtrace.postgres.discovery import Place, Server
from pgtrace.postgres.proc import process


def server(pid: int, data_directory: Path, port: int = 5432) -> Server:
    """One that is called so, and works where that process does."""
    place = Place(str(data_directory), (1, 2), None)
    return Server(process(pid), "15.18", place, 8192, port, None, None)


def test_the_directory_itself_comes_before_what_is_only_called_so(tmp_path: Path) -> None:
    """As anybody may call theirs, in a mount namespace of their own."""
    with (
        Child("bash", "-c", 'cd "$1" && exec sleep 60', "x", tmp_path) as there,
        Child("sleep", "60") as elsewhere,
    ):
        wait_for(lambda: Path(f"/proc/{there.pid}/cwd").samefile(tmp_path))
        real, called = server(there.pid, tmp_path), server(elsewhere.pid, tmp_path)
        assert _named([called, real], str(tmp_path)) == [real]
        assert _named([called], str(tmp_path)) == [called], "as in a container"
        assert _named([called, real], "05432") == [called, real]


def test_a_name_can_be_typed(tmp_path: Path) -> None:
    named = server(os.getpid(), tmp_path / "it's mine")
    line = _how_to_name(named, [named])
    assert shlex.split(line) == ["--server", str(tmp_path / "it's mine")]
