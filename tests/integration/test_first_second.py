"""What happens to a program before it does anything: Ctrl-C, few descriptors, names of no files."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from captures import some_capture
from child import Ended
from fix_cluster import Connection
from pgtrace.files import documents
from pgtrace_command import PGTRACE, Pgtrace, run


@pytest.fixture
def captured(tmp_path: Path) -> Path:
    documents.write(some_capture(), tmp_path / "captured")
    return tmp_path / "captured"


@pytest.fixture
def place(disk_directory: Path) -> Iterator[Path]:
    """An empty directory that a server's user can come to."""
    own = Path(tempfile.mkdtemp(prefix="moment-", dir=disk_directory))
    own.chmod(0o755)
    shutil.chown(own, "postgres")
    yield own
    shutil.rmtree(own)


@pytest.mark.pg("15")
@pytest.mark.apart  # it looks at every moment of a start, which others would make longer
@pytest.mark.parametrize("moments", [20, pytest.param(60, marks=pytest.mark.long)])
def test_ctrl_c_in_the_first_second(
    connection: Connection, captured: Path, place: Path, moments: int,
    *, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """There is neither a traceback, nor anything left: whatever is imported or begun."""
    # Coverage's own import in each process (its .pth) passes over all exceptions, an interrupt too
    monkeypatch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)
    pid = connection.info.backend_pid
    commands: dict[str, tuple[object, ...]] = {
        "list": (),
        "doctor": (),
        "capture": (pid, "-o", place.parent / "moment.json", "--force"),
        "attach": (pid,),
        "report": (captured,),
        "lab": ("pages", "--storage", f"disk={place}", "--rows", 1000, "--runs", 1),
    }
    interrupted = set()
    for moment in range(moments):
        with ExitStack() as stack:
            started = {
                command: stack.enter_context(Pgtrace(command, *arguments, start_new_session=True))
                for command, arguments in commands.items()
            }
            time.sleep((moment + 1) / moments)
            for each in started.values():
                each.send(signal.SIGINT)
            for command, each in started.items():
                ended = each.ended()
                check(command, ended)
                if ended.code == 130:
                    interrupted.add(command)
    assert interrupted == commands.keys(), "each was interrupted at some moment"
    assert list(place.iterdir()) == []


def check(command: str, ended: Ended) -> None:
    if "Traceback" in ended.err or "Exception ignored" in ended.err:
        # Python itself, before it comes to us; in a callback of its imports it forgets about it.
        # A module that is entered is at line 0 until its first line runs
        theirs = re.sub(r'  File "\S+/pgtrace/__main__\.py", line 0, in .*\n', "", ended.err)
        assert "/pgtrace/" not in theirs, ended.err
        assert ended.code in {0, 1, -signal.SIGINT, 130}, ended
        return
    assert ended.code in {0, 130, -signal.SIGINT}, (command, ended)
    assert "unexpected" not in ended.err


IGNORING = """
import sys
sys.argv[0] = "pgtrace"
from pgtrace import __main__
class Late:
    def __del__(self):
        raise KeyboardInterrupt
def run(*_):
    {}
    print("still here", flush=True)
    return 0
__main__._run = run
sys.exit(__main__.main())
"""


@pytest.mark.parametrize(
    ("code", "ended"),
    [
        ("Late()", Ended(130, "", "")),
        ("raise RuntimeError from KeyboardInterrupt()", Ended(130, "", "")),
        ("pass", Ended(0, "still here\n", "")),
    ],
)
def test_ctrl_c_where_python_makes_something_else_of_it(code: str, ended: Ended) -> None:
    """In a callback of its imports it is printed and forgotten; in a class's body another error."""
    assert run(command=[PGTRACE[0], "-c", IGNORING.format(code)]) == ended


AT_ONCE = """
import os, signal
from pgtrace.errors import NothingCapturedError
from pgtrace.lab.core.interruption import Interrupted, Interruption
from pgtrace.tracing.run_loop import Stopper
install = signal.signal
def with_a_signal(number, handler):
    before = install(number, handler)
    signal.signal = install
    os.kill(os.getpid(), number)
    return before
signal.signal = with_a_signal
try:
    {}
except (NothingCapturedError, Interrupted) as error:
    print(type(error).__name__)
"""


@pytest.mark.parametrize(
    ("code", "ended"),
    [
        ("Stopper()", Ended(0, "NothingCapturedError\n", "")),
        ("with Interruption().allowed(): pass", Ended(0, "Interrupted\n", "")),
    ],
)
def test_ctrl_c_as_its_handler_is_installed(code: str, ended: Ended) -> None:
    """The handlers of the other signals are not there yet."""
    assert run(command=[PGTRACE[0], "-c", AT_ONCE.format(code)]) == ended


def shell(words: str, **settings: str) -> Ended:
    """Run a line of bash in which `pgtrace` is pgtrace."""
    line = f'pgtrace() {{ {" ".join(PGTRACE)} "$@"; }}; {words}'
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, check=False, timeout=60,
        stdin=subprocess.DEVNULL, env=os.environ | settings,
    )  # fmt: skip
    return Ended(done.returncode, done.stdout, done.stderr)


def test_the_soft_limit_of_descriptors_is_raised(connection: Connection) -> None:
    pid = connection.info.backend_pid
    ended = shell(f"ulimit -Sn 20; pgtrace capture {pid} --duration 0.2 --json")
    assert ended.code == 0, ended
    assert '"pgtrace.capture/2"' in ended.out


def test_the_hard_limit_is_not_and_told(connection: Connection) -> None:
    pid = connection.info.backend_pid
    ended = shell(f"ulimit -n 20; pgtrace capture {pid} --duration 0.2 --json")
    assert ended.code != 0
    assert re.search("`ulimit -n` is too low.*`ulimit -n 1024`", ended.err)
    assert "unexpected" not in ended.err
    ended = shell("ulimit -n 64; pgtrace doctor")
    assert "open files: only 64 may be open at once" in ended.out
    assert "ulimit -n 1024" in ended.out


@pytest.mark.parametrize("command", ["list", "doctor", "report {}", "--help"])
def test_output_to_a_full_device(captured: Path, command: str) -> None:
    ended = shell(f"pgtrace {command.format(captured)} >/dev/full")
    assert ended.code == 1
    assert "No space left on device" in ended.err
    assert "unexpected" not in ended.err
    assert len(ended.err.splitlines()) == 1


@pytest.mark.parametrize("writer", [False, True])
def test_a_fifo_to_report_hangs_nobody(tmp_path: Path, captured: Path, writer: bool) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    held = os.open(fifo, os.O_RDWR) if writer else None
    began = time.monotonic()
    ended = run("report", fifo)
    assert time.monotonic() - began < 20
    assert (ended.code, ended.out) == (2, "")
    told = re.search("(pgtrace report - < .*)$", ended.err)
    assert told
    if held is not None:
        os.close(held)
    assert shell(f"cat {captured} > {fifo} & {told[1]}").code == 0, "what it says works"


@pytest.mark.parametrize(
    "words",
    ["report <(cat {})", "report - < {}", "report /dev/stdin < {}", "report /dev/fd/3 3< {}",
     "report - < <(cat {})"],
)  # fmt: skip
def test_streams_that_the_shell_opened(captured: Path, words: str) -> None:
    ended = shell(f"pgtrace {words.format(captured)}")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == run("report", captured).out


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null"])
def test_a_device_to_report(path: str) -> None:
    ended = run("report", path)
    assert (ended.code, ended.out) == (2, "")
    assert "is no file" in ended.err


@pytest.mark.parametrize("key", ["total_ns", "text", "schema", "unknown", "t\\u006ftal_ns"])
def test_a_key_that_is_there_twice(captured: Path, tmp_path: Path, key: str) -> None:
    """One reader takes the first, another the last: what one looked at, another does not show."""
    plain = key.replace("\\u006f", "o")
    raw = captured.read_text()
    assert raw.count("{") > 3
    for at in range(1, 4):
        begin = [match.end() for match in re.finditer("{", raw)][at]
        file = tmp_path / "twice"
        file.write_text(f'{raw[:begin]}"{key}": 1, "{plain}": 2, {raw[begin:]}')
        ended = run("report", file)
        assert (ended.code, ended.out) == (2, ""), ended
        assert f"has the key '{plain}' twice" in ended.err
