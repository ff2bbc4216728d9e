"""pgtrace top on a real terminal: what a person sees and presses, and that the terminal is left as
it was found, however it ends."""

import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from bpf_left import leftovers, ours
from child import children_of
from copied_cluster import CopiedCluster
from fix_cluster import bindir
from fix_markers import PG_VERSION
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.model import decoding
from pgtrace_command import MAIN, PGTRACE, run, wait_for
from scans import scanning
from tmux import Tmux

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="traces: needs root")

HEAD = "UTC: "
"""Of a screen with something on it."""


@pytest.fixture(scope="module")
def cluster(disk_directory: Path) -> Iterator[PrivateCluster]:
    """With so little of its own memory that each scan reads."""
    settings = {"shared_buffers": "128kB", "autovacuum": False}
    with CopiedCluster(
        settings, table=True, bindir=bindir(PG_VERSION), directory=disk_directory
    ) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    before = ours()
    yield
    wait_for(lambda: leftovers(before) == {}, instead=lambda: leftovers(before))


def begin(tmux: Tmux, cluster: PrivateCluster, *words: str) -> None:
    tmux.run(*PGTRACE, "top", "--server", cluster.datadir, "--no-connect", *words)


def leave_page(tmux: Tmux) -> None:
    """What comes right behind an Escape would be taken for a key with Alt."""
    tmux.press("Escape")
    tmux.shows(HEAD, "1 Backends")


def paused_at(tmux: Tmux) -> str:
    """The time of day."""
    found = re.search(r"PAUSED at ([\d:]+), ", tmux.screen())
    return found[1] if found else "not paused"


def test_a_person_finds_who_reads(cluster: PrivateCluster, tmp_path: Path) -> None:
    """Lists by number and Tab, a filter, a row's own page, another span, a pause, the past."""
    with scanning(cluster), Tmux(tmp_path) as tmux:
        begin(tmux, cluster)
        tmux.shows(HEAD, "Waiting for the device: ", "1 Backends", "client")
        tmux.press("2", "t")  # in each ten seconds there is a row
        tmux.shows("from tbl_cost_align", "▼device/s", "last 10 s")
        tmux.press("Tab")
        tmux.shows("relation or kind of file", "▼device/s")
        tmux.press("2", "/")
        tmux.type("no such text")
        tmux.shows("no row has 'no such text'")
        tmux.press("Escape")
        wait_for(lambda: "no such text" not in tmux.screen(), instead=tmux.screen)
        tmux.shows("from tbl_cost_align", "last 10 s")
        tmux.press("Enter")
        tmux.shows("Statement in the last 10 s:", "Esc leaves this page")
        tmux.press("End")
        tmux.shows("reads, page cache: ", ", mean ")
        leave_page(tmux)
        tmux.press("t")
        tmux.shows("last 1 min")
        seen = set[str]()  # there is a past to go back to after some seconds

        def passed() -> bool:
            seen.update(re.findall(r"^(\d\d:\d\d:\d\d) UTC", tmux.screen()))
            return len(seen) > 5

        wait_for(passed, instead=tmux.screen)
        tmux.press("Space")
        tmux.shows("PAUSED at ")
        at = paused_at(tmux)
        tmux.press("[", "[", "[")  # two seconds that follow may end within one of the clock
        wait_for(lambda: paused_at(tmux) < at, instead=tmux.screen)
        tmux.press("Space", "?")
        tmux.shows("sort by the column to the left", "Esc leaves this page")
        tmux.press("q", "q")
        assert tmux.ended() == 0


def test_the_last_minutes_are_written(cluster: PrivateCluster, tmp_path: Path) -> None:
    with scanning(cluster), Tmux(tmp_path) as tmux:
        begin(tmux, cluster)
        tmux.shows(HEAD)
        tmux.press("w")
        tmux.shows("Write the last minutes, 1 to 10: 1")
        tmux.type("2")
        tmux.press("Enter")
        tmux.shows("Nothing written: '12' is no number from 1 to 10")
        tmux.press("w", "Enter")
        tmux.shows("Wrote pgtrace-")
        (path,) = tmp_path.glob("pgtrace-*.json")
        assert decoding.decode_capture(path.read_bytes()).totals
        assert path.stat().st_mode & 0o777 == 0o600
        tmux.press("C-c")
        assert tmux.ended() == 0


def write_in(directory: Path, cluster: PrivateCluster, shell_files: Path) -> None:
    """The last minute of one backend, whose screen is begun there."""
    with cluster.connect() as connection, Tmux(directory, shell_files=shell_files) as tmux:
        tmux.run(*PGTRACE, "top", "--no-connect", connection.info.backend_pid)
        tmux.shows(HEAD)
        tmux.press("w", "Enter")
        tmux.shows("Wrote pgtrace-")
        tmux.press("q")
        assert tmux.ended() == 0


def test_in_somebodys_directory_the_file_is_theirs(
    cluster: PrivateCluster, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Also where one backend is traced, and all privileges that are not needed are gone."""
    theirs = tmp_path_factory.getbasetemp().parent / "theirs"
    theirs.mkdir(exist_ok=True)
    os.chown(theirs, 12345, 12345)
    theirs.chmod(0o755)
    write_in(theirs, cluster, tmp_path)
    (path,) = theirs.glob("pgtrace-*.json")
    assert path.stat().st_uid == 12345
    path.unlink()


def test_in_roots_directory_whose_mode_is_against_it_the_file_is_written(
    cluster: PrivateCluster, tmp_path: Path
) -> None:
    """As /root is on RHEL."""
    own = tmp_path / "own"
    own.mkdir()
    own.chmod(0o550)
    write_in(own, cluster, tmp_path)
    assert len([*own.iterdir()]) == 1


@pytest.mark.parametrize("columns, rows", [(20, 5), (300, 100), (80, 24), (1, 1)])
def test_any_size_will_do(cluster: PrivateCluster, tmp_path: Path, columns: int, rows: int) -> None:
    """It is drawn anew when the size changes, also while a page is open."""
    with scanning(cluster), Tmux(tmp_path) as tmux:
        begin(tmux, cluster, "--tab", "statements")
        tmux.press("t")  # in each ten seconds there is a row
        tmux.shows(HEAD, "tbl_cost_align", "last 10 s")
        tmux.resize(columns, rows)
        if columns == 300:
            # Everything has room there
            tmux.shows("select * from tbl_cost_align", "5 Wait events", "w write")
        elif columns >= 20:
            tmux.shows("2 Statements", "device/s")
        tmux.press("Enter")
        time.sleep(1.2)
        tmux.resize(100, 30)
        tmux.shows("Esc leaves this page")
        leave_page(tmux)
        tmux.press("q")
        assert tmux.ended() == 0


@pytest.mark.parametrize(
    "settings",
    [
        {"TERM": "tmux-256color"},
        {"TERM": "screen"},
        {"TERM": "xterm-16color"},
        {"TERM": "vt100"},
        {"TERM": "tmux-256color", "NO_COLOR": "1"},
    ],
)
def test_any_terminal_will_do(
    cluster: PrivateCluster, tmp_path: Path, settings: dict[str, str]
) -> None:
    """Nothing is told by colour alone: without any, all is there."""
    with scanning(cluster), Tmux(tmp_path, environment=settings) as tmux:
        begin(tmux, cluster, "--tab", "statements")
        tmux.shows(HEAD, "▼device/s", "tbl_cost_align")
        tmux.press("Space")
        tmux.shows("PAUSED at ")
        if "NO_COLOR" in settings:
            assert not re.search(r"\x1b\[(?:\d+;)*(?:[349][0-7]|10[0-7]|[34]8;)", tmux.colours())
        tmux.press("q")
        assert tmux.ended() == 0


def test_a_terminal_without_utf8_gets_ascii(cluster: PrivateCluster, tmp_path: Path) -> None:
    with scanning(cluster), Tmux(tmp_path, environment={"LC_ALL": "C"}) as tmux:
        begin(tmux, cluster, "--tab", "statements")
        tmux.shows(HEAD, "vdevice/s", "tbl_cost_align")
        assert tmux.screen().isascii()
        tmux.press("t")
        tmux.shows("last 10 s")
        tmux.press("Enter")
        tmux.shows("Latencies", "#")
        assert tmux.screen().isascii()
        leave_page(tmux)
        tmux.press("?")
        tmux.shows("Esc leaves this page")
        assert tmux.screen().isascii()
        tmux.press("q", "q")
        assert tmux.ended() == 0


def renamed(own: PrivateCluster) -> None:
    """Its data directory, and one of a tablespace, to what is no UTF-8; it has to run."""
    space, inside = own.base / "space", own.base / os.fsdecode(b"\xe9t\xe9")
    space.mkdir()
    os.chown(space, *own.ids())
    with own.connect() as connection:
        connection.execute(f"create tablespace space location '{own.inside(space)}'")
    own.stop()
    (link,) = (own.datadir / "pg_tblspc").iterdir()
    link.unlink()
    link.symlink_to(space.rename(own.base / os.fsdecode(b"espac\xe9")))
    own.datadir.rename(inside)
    own.datadir.symlink_to(inside)
    own.start()


def test_paths_that_are_no_utf8_are_shown(disk_directory: Path, tmp_path: Path) -> None:
    with CopiedCluster(bindir=bindir(PG_VERSION), directory=disk_directory) as own:
        renamed(own)
        as_text = run("top", "--no-connect", own.postmaster_pid, "--batch", 1)
        assert (as_text.code, as_text.err) == (0, "")
        assert f"{own.base}/\\udce9t\\udce9" in as_text.out
        with Tmux(tmp_path, columns=150) as tmux:
            tmux.run(*PGTRACE, "top", "--no-connect", own.postmaster_pid)
            tmux.shows(HEAD, f"the server in {own.base}/\\xe9t\\xe9")
            tmux.press("q")
            assert tmux.ended() == 0


def test_the_mouse_does_what_keys_do(cluster: PrivateCluster, tmp_path: Path) -> None:
    with scanning(cluster), Tmux(tmp_path) as tmux:
        begin(tmux, cluster)
        tmux.shows(HEAD)
        tmux.press("t")  # in each ten seconds there is a row
        tmux.click("1 Backends", "2 Statements")
        tmux.shows("from tbl_cost_align")
        tmux.click("device/s", "reads/s")
        tmux.shows("▼reads/s")
        tmux.click("device/s", "reads/s")
        tmux.shows("▲reads/s")
        tmux.press("End")
        tmux.click("tbl_cost_align", "tbl_cost_align")
        tmux.shows("Statement in the last 10 s:")
        tmux.press("q", "q")
        assert tmux.ended() == 0


def test_what_draws_holds_nothing_but_the_terminal(cluster: PrivateCluster, tmp_path: Path) -> None:
    """Nobody's ids, no capability, no new privileges, no file of its own, and no environment that
    makes textual write files."""
    settings = {"TEXTUAL_LOG": str(tmp_path / "log"), "PGPASSWORD": "secret"}
    with Tmux(tmp_path, environment=settings) as tmux:
        begin(tmux, cluster)
        tmux.shows(HEAD)
        drawing = drawer(tmux)
        status = Path(f"/proc/{drawing}/status").read_text()
        for name, value in (
            ("Uid", "65534\t65534\t65534\t65534"),
            ("Gid", "65534\t65534\t65534\t65534"),
            ("Groups", " "),
            ("CapPrm", "0000000000000000"),
            ("CapEff", "0000000000000000"),
            ("CapBnd", "0000000000000000"),
            ("NoNewPrivs", "1"),
        ):
            assert re.search(rf"^{name}:\t{value}\s*$", status, re.MULTILINE), name
        opened = [str(each.readlink()) for each in Path(f"/proc/{drawing}/fd").iterdir()]
        assert {
            each for each in opened if not each.startswith(("/dev/pts/", "socket:", "anon_inode:"))
        } == set()
        assert "Max file size             0 " in Path(f"/proc/{drawing}/limits").read_text()
        assert not (tmp_path / "log").exists()
        tmux.press("q")
        assert tmux.ended() == 0


def test_what_draws_imports_nothing_once_it_is_nobody(
    cluster: PrivateCluster, tmp_path: Path
) -> None:
    """Who may not be able to read the files of root's virtual environment."""
    code = """
import sys
from pgtrace.live.screen import app, child
become, run = child._become_nobody, app.TopApp.run
def became():
    become()
    child.before = set(sys.modules)
def ran(self):
    run(self)
    print("late:", sorted(set(sys.modules) - child.before), flush=True)
child._become_nobody, app.TopApp.run = became, ran
"""
    with scanning(cluster), Tmux(tmp_path) as tmux:
        (tmp_path / "code.py").write_text(code + MAIN)
        tmux.run(sys.executable, "code.py", "top", "--server", cluster.datadir, "--no-connect")
        tmux.shows(HEAD)
        tmux.press("2", "t")  # in each ten seconds there is a row
        tmux.shows("from tbl_cost_align")
        tmux.click("device/s", "reads/s")
        tmux.shows("▼reads/s")
        tmux.press("Enter")
        tmux.shows("Esc leaves this page")
        leave_page(tmux)
        tmux.press("w")
        tmux.shows("Write the last minutes")
        tmux.type("x")
        tmux.press("Enter")
        tmux.shows("Nothing written")
        tmux.press("?")
        tmux.shows("Esc leaves this page")
        tmux.press("q", "q")
        tmux.shows("late: []")
        assert tmux.ended() == 0


def drawer(tmux: Tmux) -> int:
    """The process that draws: the child of pgtrace's that is nobody."""

    def is_nobody(pid: int) -> bool:
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            return "\nUid:\t65534" in Path(f"/proc/{pid}/status").read_text()
        return False

    def look() -> list[int]:
        return [pid for pid in children_of(tmux.pid("pgtrace")) if is_nobody(pid)]

    (found,) = wait_for(look)
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_leaves_the_terminal_as_it_was(
    cluster: PrivateCluster, tmp_path: Path, number: signal.Signals
) -> None:
    with Tmux(tmp_path) as tmux:
        begin(tmux, cluster)
        tmux.shows(HEAD)
        os.kill(tmux.pid("pgtrace"), number)
        assert tmux.ended() == 0


def test_a_crash_of_what_draws_leaves_the_terminal_as_it_was(
    cluster: PrivateCluster, tmp_path: Path
) -> None:
    with Tmux(tmp_path) as tmux:
        begin(tmux, cluster)
        tmux.shows(HEAD)
        os.kill(drawer(tmux), signal.SIGKILL)
        tmux.shows("pgtrace: the process that draws the screen was ended by SIGKILL")
        assert tmux.ended() == 1


@pytest.mark.parametrize("at", ["listing", "sort_by", "pause"])
def test_an_error_of_what_draws_leaves_the_terminal_as_it_was(
    cluster: PrivateCluster, tmp_path: Path, at: str
) -> None:
    """Whether it comes with a frame or a key; no value is told, which may be somebody's data."""
    least = 3 if at == "listing" else 0
    code = f"""
from pgtrace.live import view
old = view.View.{at}
def new(self, *words):
    if self.kept.came >= {least}:
        raise KeyError("secret")
    return old(self, *words)
view.View.{at} = new
"""
    with Tmux(tmp_path) as tmux:
        (tmp_path / "code.py").write_text(code + MAIN)
        tmux.run(sys.executable, "code.py", "top", "--server", cluster.datadir, "--no-connect")
        if at != "listing":  # then it is shown for two seconds, or not at all
            tmux.shows(HEAD)
            tmux.press("r" if at == "sort_by" else "Space")
        tmux.shows("unexpected error while drawing: KeyError in code.py:6")
        assert "secret" not in tmux.screen()
        assert tmux.ended() == 1


def test_a_kill_of_what_traces_leaves_the_terminal_as_it_was(
    cluster: PrivateCluster, tmp_path: Path
) -> None:
    with Tmux(tmp_path) as tmux:
        begin(tmux, cluster)
        tmux.shows(HEAD)
        drawing = drawer(tmux)
        os.kill(tmux.pid("pgtrace"), signal.SIGKILL)
        wait_for(lambda: not Path(f"/proc/{drawing}/exe").is_symlink())
        # What the shell said stood on the screen that was left after it
        tmux.type('echo "ended" with $?')
        tmux.press("Enter")
        assert tmux.ended() in (0, 128 + signal.SIGKILL)


def test_an_error_of_what_traces_is_told(cluster: PrivateCluster, tmp_path: Path) -> None:
    code = """
from pgtrace.live.teller import Teller
old, calls = Teller.frame, []
def new(self):
    calls.append(1)
    return old(self) if len(calls) < 4 else calls["secret"]
Teller.frame = new
"""
    with Tmux(tmp_path, rows=50) as tmux:
        tmux.run(sys.executable, "-c", code + MAIN, "top", "--server", cluster.datadir)
        tmux.shows("unexpected error: tracing ended early: TypeError", "ended with 1")


def test_a_server_may_be_restarted_meanwhile(cluster: PrivateCluster, tmp_path: Path) -> None:
    with Tmux(tmp_path) as tmux:
        begin(tmux, cluster, "--tab", "relations")
        tmux.shows(HEAD)
        cluster.stop()
        tmux.shows("the server is away")
        cluster.start()
        with scanning(cluster):
            tmux.shows("(relation)", "1 client")
        tmux.press("q")
        assert tmux.ended() == 0


def test_stderr_may_be_a_file(cluster: PrivateCluster, tmp_path: Path) -> None:
    """textual draws on stderr, and it is not drawn there."""
    with Tmux(tmp_path) as tmux:
        command = " ".join([*PGTRACE, "top", "-v", "--server", str(cluster.datadir)])
        tmux.run("bash", "-c", f"{command} 2> said")
        tmux.shows(HEAD)
        tmux.press("q")
        assert tmux.ended() == 0
        assert "\x1b" not in (tmp_path / "said").read_text()


def test_it_ends_with_the_backend_or_after_its_time(
    cluster: PrivateCluster, tmp_path: Path
) -> None:
    with cluster.connect() as connection, Tmux(tmp_path) as tmux:
        tmux.run(*PGTRACE, "top", "--no-connect", connection.info.backend_pid)
        tmux.shows(HEAD, str(connection.info.backend_pid))
        connection.close()
        tmux.shows("The backend ended.")
        assert tmux.ended() == 0
        begin(tmux, cluster, "--duration", "10")
        tmux.shows(HEAD)
        assert tmux.ended() == 0


def test_a_terminal_that_is_none_is_said_to_be(cluster: PrivateCluster, tmp_path: Path) -> None:
    with Tmux(tmp_path, environment={"TERM": "dumb"}) as tmux:
        begin(tmux, cluster)
        tmux.shows("stdin and stdout have to be a terminal")
        assert tmux.ended() == 2
