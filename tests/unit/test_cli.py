"""The command line itself: exit codes, where messages go, and a quick start."""

import argparse
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pgtrace import __version__, commands, errors
from pgtrace.__main__ import main
from pgtrace.commands.lab import TABLE, LabCommand

COLLECTOR = Path(commands.__file__).parents[2]


class Fake:
    """Do what a test says.

    At length.
    """

    examples = ("pgtrace list",)

    def __init__(self, outcome: Any = 0) -> None:
        self.outcome = outcome
        self.args = argparse.Namespace()

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--duration", type=float)
        parser.add_argument("name", nargs="?")

    def run(self, args: argparse.Namespace) -> int:
        self.args = args
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return int(self.outcome)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    command = Fake()
    monkeypatch.setattr(commands, "load", lambda _: command)
    return command


def pgtrace(*args: str, unbuffered: str = "", **settings: Any) -> subprocess.CompletedProcess[str]:
    """Run it as users do."""
    return subprocess.run(
        [sys.executable, "-m", "pgtrace", *args],
        env=os.environ | {"PYTHONPATH": str(COLLECTOR), "PYTHONUNBUFFERED": unbuffered},
        text=True,
        check=False,
        **{"capture_output": True, "encoding": "utf-8"} | settings,
    )


def test_help_names_every_command_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out, err = capsys.readouterr()
    for name, (_, text) in commands.TABLE.items():
        assert f"  {name:<7}  {text}\n" in out
    assert err == ""


def test_version(capsys: pytest.CaptureFixture[str], fake: Fake) -> None:
    for argv in (["--version"], ["list", "--version"]):
        assert main(argv) == 0
        assert capsys.readouterr() == (f"pgtrace {__version__}\n", "")


@pytest.mark.parametrize("name", commands.TABLE)
def test_every_command_has_help_of_its_own(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"usage: pgtrace {name} ")
    assert type(commands.load(name)).__name__ == f"{name.capitalize()}Command"
    description = out.split("\n\n")[1]
    assert (commands.load(name).__doc__ or "").startswith(description.splitlines()[0])
    assert err == ""


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["lab", "page"], "there is no experiment 'page'; did you mean `pgtrace lab pages`?"),
        (["lab", "xyz"], "there is no experiment 'xyz'; `pgtrace lab --help` lists them"),
        (["lab", "--frob", "pages"], "unrecognized arguments: --frob; see `pgtrace lab --help`"),
        (["repot"], "there is no command 'repot'; did you mean `pgtrace report`?"),
        (["xyz"], "there is no command 'xyz'; `pgtrace --help` lists them"),
        (["a\x1b[31m"], r"there is no command 'a\x1b[31m'; `pgtrace --help` lists them"),
        (["--frob", "list"], "unrecognized arguments: --frob; see `pgtrace --help`"),
        (["list", "--frob"], "unrecognized arguments: --frob; see `pgtrace list --help`"),
        (
            ["report", "--json", "--format", "html", "f"],
            "argument --format: not allowed with argument --json; see `pgtrace report --help`",
        ),
        (
            ["report", "--format=text", "--json", "f"],
            "argument --json: not allowed with argument --format; see `pgtrace report --help`",
        ),
        (
            ["compare", "--json", "--format", "html", "f", "g"],
            "argument --format: not allowed with argument --json; see `pgtrace compare --help`",
        ),
        (
            ["attach", "--literals", "1"],
            "--literals is for --json: the screen shows texts as they are",
        ),
        (
            ["attach", "--json", "--every", "2", "1"],
            "--every is for the screen: --json prints each query as it ends",
        ),
        (
            ["attach", "--json", "--per-query", "1"],
            "--per-query is for the screen: --json prints each query as it ends",
        ),
        *(
            (
                ["attach", "--per-query", "--queries", tier, "1"],
                f"--per-query: with --queries {tier} nothing tells when a query ends; "
                "type --queries full, or leave --queries out",
            )
            for tier in ("light", "none")
        ),
        (
            ["attach", "--json", "--per-query", "--queries", "light", "1"],
            "--per-query is for the screen: --json prints each query as it ends",
        ),
        (["report"], "the following arguments are required: FILE; see `pgtrace report --help`"),
        (["list", "--verb"], "unrecognized arguments: --verb; see `pgtrace list --help`"),
        (["--verb", "list"], "unrecognized arguments: --verb; see `pgtrace --help`"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_2(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    assert capsys.readouterr() == ("", f"pgtrace: {message}\n")


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ("capture --server ''", "--server"),
        ("capture --server=", "--server"),
        ("capture --all --datname ''", "--datname"),
        ("capture --all --usename ''", "--usename"),
        ("capture --all -o ''", "-o/--output"),
        ("top --batch 1 --server ''", "--server"),
        ("report --statement '' none.json", "--statement"),
        ("report --since '' none.json", "--since"),
        ("report --until= none.json", "--until"),
        ("report ''", "FILE"),
        ("report -o '' none.json", "-o/--output"),
        ("compare none.json ''", "FILE"),
        ("lab pages --storage ''", "--storage"),
        ("lab pages --storage ssd=/mnt --user ''", "--user"),
    ],
)
def test_an_empty_value_is_not_an_option_left_out(
    line: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A script with an empty variable would trace what nobody asked for."""
    assert main(shlex.split(line)) == 2
    out, err = capsys.readouterr()
    said = f"pgtrace: argument {option}: it is empty: give a value, or leave it out; see `pgtrace "
    assert (out, err[: len(said)]) == ("", said)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("attach ''", "argument PID: '' is not a pid"),
        ("attach -p ''", "argument -p/--pid: '' is not a pid"),
        ("attach --duration= 1", "argument --duration: '' is not a number of seconds above 0"),
        ("compare none.json other.json --a ''", "--a: '' is no part of a capture; it is"),
        ("compare none.json other.json --fail-if ''", "--fail-if: ''"),
    ],
)
def test_what_is_parsed_says_what_it_may_be(
    line: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(shlex.split(line)) == 2
    assert capsys.readouterr().err.startswith(f"pgtrace: {said}")


def test_an_empty_dsn_stands_for_libpqs_environment(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--planner", "--dsn", "", "none.json"]) == 2
    assert capsys.readouterr().err == "pgtrace: none.json: no such file\n"


@pytest.mark.parametrize("name", [*commands.TABLE, *(f"lab {name}" for name in TABLE)])
@pytest.mark.parametrize("text", ["", "x", "-1", "0", "1_0", "\u0663", "9" * 5000, "nan", "\0"])
def test_what_is_no_value_of_an_option_is_said_in_words(name: str, text: str) -> None:
    """Never as `invalid _positive value`, which is what argparse makes of a ValueError."""
    command, _, experiment = name.partition(" ")
    found = commands.load(command)
    if isinstance(found, commands.Group):
        if not experiment:
            return
        found = found.load(experiment)
    parser = argparse.ArgumentParser()
    found.prepare_parser(parser)
    for convert in (action.type for action in parser._actions if callable(action.type)):
        try:
            convert(text)
        except argparse.ArgumentTypeError as error:
            assert str(error).startswith(repr(text))


@pytest.mark.parametrize("word", ["-v", "--verbose", "-q", "--quiet"])
def test_shared_options_go_before_and_after_the_command(fake: Fake, word: str) -> None:
    wanted = {"verbose": "v" in word, "quiet": "q" in word}
    for argv in ([word, "list"], ["list", word], ["list", "name", word], [word, "list", word]):
        assert main(argv) == 0
        assert {key: vars(fake.args)[key] for key in wanted} == wanted
    assert main(["list"]) == 0
    assert (fake.args.verbose, fake.args.quiet) == (False, False)


def test_shared_options_reach_through_a_commands_own_subcommands(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "load", lambda _: LabCommand())
    monkeypatch.setattr(LabCommand, "load", lambda *_: fake)
    for argv in (["-v", "lab", "pages"], ["lab", "-v", "pages"], ["lab", "pages", "-v"]):
        assert main(argv) == 0
        assert fake.args.verbose, argv
    assert main(["lab", "pages", "--verb"]) == 2


def test_without_a_command_there_is_help(capsys: pytest.CaptureFixture[str]) -> None:
    for argv, words in ([], "commands:\n  doctor "), (["lab"], "experiments:\n  pages "):
        assert main(argv) == 0
        assert words in capsys.readouterr().out


@pytest.mark.parametrize("name", [*commands.TABLE, *(f"lab {name}" for name in TABLE)])
def test_help_fits_80_columns_and_ends_with_examples_that_can_be_parsed(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main([*name.split(), "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    examples = lines[lines.index("examples:") + 1 :]
    assert len(examples) == 2
    for line in examples:
        words = shlex.split(line.replace("sudo ", ""))
        assert main([*words[1:], "--help"]) == 0
    capsys.readouterr()


def test_the_commands_own_options_and_exit_code_count(fake: Fake) -> None:
    fake.outcome = 6
    assert main(["list", "--duration", "2.5", "digoal"]) == 6
    assert (fake.args.duration, fake.args.name) == (2.5, "digoal")


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.PgtraceError, 1), (errors.UsageError, 2), (errors.TargetError, 3),
        (errors.PermissionDeniedError, 4), (errors.UnsupportedError, 5),
        (errors.IncompleteError, 6), (errors.DatabaseError, 7),
        (errors.ConditionError, 8), (errors.NothingCapturedError, 130),
    ],
)  # fmt: skip
def test_errors_are_told_on_stderr_with_their_exit_codes(
    fake: Fake, kind: type[errors.PgtraceError], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.outcome = kind("no such\x1b thing.\nType: that")
    assert main(["list"]) == code
    assert capsys.readouterr() == ("", "pgtrace: no such\\x1b thing.\nType: that\n")


def test_the_unexpected_is_one_line_and_a_traceback_on_request(
    fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.outcome = ZeroDivisionError("x\ny")
    assert main(["list"]) == 1
    assert capsys.readouterr() == (
        "",
        "pgtrace: unexpected error: ZeroDivisionError: x (run again with -v for the traceback)\n",
    )
    for argv in (["list", "-v"], ["-v", "list"]):
        assert main(argv) == 1
        err = capsys.readouterr().err
        assert "Traceback (most recent call last)" in err
        assert "in run" in err


def test_an_interrupt_is_130_without_words(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    fake.outcome = KeyboardInterrupt()
    assert main(["list"]) == 130
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_has_seen_enough_is_no_error(unbuffered: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    streams: dict[str, Any] = {"stdout": writing, "stderr": subprocess.PIPE}
    done = pgtrace("--help", unbuffered=unbuffered, capture_output=False, **streams)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_is_an_error(unbuffered: str) -> None:
    with Path("/dev/full").open("w") as full:
        streams: dict[str, Any] = {"stdout": full, "stderr": subprocess.PIPE}
        done = pgtrace("--help", unbuffered=unbuffered, capture_output=False, **streams)
    assert done.returncode == 1
    assert done.stderr.startswith("pgtrace: No space left on device: make room")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("attach 1 --duration 1", "`pgtrace attach … > FILE`"),
        ("capture --duration 1", "name a file with -o FILE"),
        ("capture --duration 1 --json -o none.json", "`pgtrace capture … > FILE`"),
        ("compare none.json other.json", "name a file with -o FILE"),
        ("doctor", "`pgtrace doctor … > FILE`"),
        ("doctor --json", "`pgtrace doctor … > FILE`"),
        ("lab pages", "name a file with -o FILE"),
        ("list", "`pgtrace list … > FILE`"),
        ("list --json", "`pgtrace list … > FILE`"),
        ("report none.json", "name a file with -o FILE"),
        ("report --json none.json", "name a file with -o FILE"),
        ("report --planner none.json", "name a file with -o FILE"),
        ("top", "`pgtrace top … > FILE`"),
        ("top --batch 1", "`pgtrace top … > FILE`"),
    ],
)
def test_a_stdout_that_is_closed_is_told_before_anything_is_done(line: str, said: str) -> None:
    command = f"{sys.executable} -m pgtrace {line} >&-"
    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (2, f"pgtrace: stdout is closed: {said}\n")


def test_what_goes_to_a_file_needs_no_stdout(tmp_path: Path) -> None:
    command = f"{sys.executable} -m pgtrace report none.json -o {tmp_path}/out >&-"
    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert ended.stderr == "pgtrace: none.json: no such file\n"


def test_help_imports_no_command_and_no_library() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from pgtrace.__main__ import main; main(['--help'])\n"
            "print(*sys.modules, file=sys.stderr)",
        ],
        env=os.environ | {"PYTHONPATH": str(COLLECTOR)},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {name for name in done.stderr.split() if not name.startswith("_")}
    assert {name for name in loaded if name.startswith("pgtrace")} == {
        "pgtrace",
        "pgtrace.__main__",
        "pgtrace.commands",
        "pgtrace.errors",
        "pgtrace.interrupts",
    }
    assert not loaded & {"msgspec", "hdrh", "elftools", "psycopg", "ctypes"}


def test_a_command_does_not_import_the_others() -> None:
    code = (
        "import sys; from pgtrace.__main__ import main; main(['report', '--help'])\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(COLLECTOR)},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(done.stderr.split())
    assert "pgtrace.commands.report" in loaded
    others = {f"pgtrace.commands.{module}" for module, _ in commands.TABLE.values()}
    assert loaded & others == {"pgtrace.commands.report"}
