"""pgtrace report: the forms, where they go, and what is never overwritten."""

import io
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from pgtrace import commands
from pgtrace.__main__ import main
from pgtrace.files import documents
from pgtrace.model import capture
from pgtrace.model.capture import Backend, Capture, Host, Lost, Probes, Server
from pgtrace.model.histogram import Histogram
from pgtrace.reporters import hlog
from pgtrace.reporters.terminal import capture_report
from pgtrace_command import run

COLLECTOR = Path(commands.__file__).parents[2]


@pytest.fixture
def taken() -> Capture:
    histogram = Histogram()
    histogram.add(9_000, 100)
    reads = capture.Io(
        source="page_cache",
        pattern="sequential",
        size="1",
        scope="query",
        bytes=819_200,
        blocks=100,
        device_bytes=0,
        latency=histogram.to_data(),
    )
    return Capture(
        started="2026-01-31T12:00:00.000000Z",
        duration_s=10.0,
        host=Host("6.1", 2),
        server=Server("15.18"),
        probes=Probes("libbpf", "fentry", "usdt"),
        lost=Lost(),
        totals={},
        backends=[Backend(5167, datname="digoal", usename="été", io=[reads])],
    ).add_up()


@pytest.fixture
def file(taken: Capture, tmp_path: Path) -> Path:
    path = tmp_path / "taken.json"
    documents.write(taken, path)
    return path


def test_text_is_printed_unless_another_form_is_asked_for(
    file: Path, taken: Capture, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(file)]) == 0
    assert capsys.readouterr() == (capture_report.render(taken), "")
    assert main(["report", str(file), "--format", "hlog"]) == 0
    assert capsys.readouterr() == (hlog.render(taken), "")


@pytest.mark.parametrize("options", [["--json"], ["--format", "json"], ["--format=json"]])
def test_json_is_the_file_again(
    file: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", *options, str(file)]) == 0
    assert capsys.readouterr() == (file.read_text(), "")


def test_output_goes_to_a_file_and_the_message_to_stderr(
    file: Path, taken: Capture, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.txt"
    assert main(["report", str(file), "-o", str(out)]) == 0
    assert capsys.readouterr() == ("", f"Wrote {out}\n")
    assert out.read_text() == capture_report.render(taken)
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert main(["report", str(file), "-o", str(out), "--force", "-q"]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("name", ["taken.json", "linked.json", "up/../taken.json", "stdin"])
@pytest.mark.parametrize("form", ["text", "json", "html"])
def test_what_is_read_is_never_overwritten(
    taken: Capture, tmp_path: Path, name: str, form: str
) -> None:
    """By whatever name it is written to, or read from, and whether --force is given or not."""
    file = tmp_path / "taken.json"
    (tmp_path / "up").mkdir()
    documents.write(taken, file)
    os.link(file, tmp_path / "linked.json")
    whole = file.read_bytes()
    out = file if name == "stdin" else tmp_path / name
    for force in [], ["--force"]:
        with file.open("rb") as stdin:
            read = "-" if name == "stdin" else file
            ended = run("report", read, "--format", form, "-o", out, *force, stdin=stdin)
        said = f"pgtrace: {out} is the file that is read, and would be lost: name another with -o\n"
        assert (ended.code, ended.out, ended.err) == (2, "", said)
        ended = run("compare", tmp_path / "none.json", file, "-o", out, *force)
        assert (ended.code, ended.err) == (2, said)
    assert file.read_bytes() == whole


def test_nothing_is_overwritten_without_force(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.txt"
    out.write_text("precious")
    assert main(["report", str(file), "-o", str(out)]) == 2
    assert capsys.readouterr() == ("", f"pgtrace: {out} exists; --force overwrites it\n")
    assert out.read_text() == "precious"


def test_a_place_that_cannot_be_written_is_told_before_the_file_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "missing", "-o", str(tmp_path / "none" / "out")]) == 2
    assert "none: no such directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file"),
        ("", "is empty"),
        ('{"a": 1}', "is not a capture: it is JSON of another program"),
        ('{"schema": "pgtrace.capture/3"}', "this pgtrace reads /1 and /2: upgrade pgtrace"),
    ],
)
def test_files_that_are_no_captures_are_exit_2(
    tmp_path: Path, content: str | None, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.json"
    if content is not None:
        path.write_text(content)
    assert main(["report", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"pgtrace: {path}")
    assert message in err


def test_a_capture_is_read_from_a_pipe_and_written_as_utf_8_in_any_locale(file: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pgtrace", "report", "-"],
        env=os.environ | {"PYTHONPATH": str(COLLECTOR), "PYTHONIOENCODING": "ascii"},
        input=file.read_bytes(),
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert "été@digoal" in done.stdout.decode("utf-8")


class Terminal(io.StringIO):
    """A stdout that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_bars_fit_the_terminal(
    file: Path, taken: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    assert main(["report", str(file)]) == 0
    assert terminal.getvalue() == capture_report.render(taken, width=60)
    assert main(["report", str(file), "-q", "-o", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out").read_text() == capture_report.render(taken, width=80)


def test_a_report_needs_neither_the_kernel_half_nor_a_server(file: Path) -> None:
    code = (
        "import sys; from pgtrace.__main__ import main; main(['report', sys.argv[1]])\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(file)],
        env=os.environ | {"PYTHONPATH": str(COLLECTOR)},
        capture_output=True,
        text=True,
        check=True,
    )
    forbidden = ("pgtrace.engines", "pgtrace.libbpf", "pgtrace.postgres", "psycopg", "elftools")
    assert not [name for name in done.stderr.split() if name.startswith(forbidden)]
    assert "pgtrace.model.capture" in done.stderr.split()
