"""The HTML page in headless Chromium: what it shows once its scripts ran, and how it is used.

PGTRACE_PICTURES=DIR keeps pictures of it there, to be looked at.
"""

import base64
import os
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import html_page
import lab_results
from captures import (
    CACHED,
    DEVICE,
    HOSTILE,
    HOSTILE_SHOWN,
    ISSUED,
    WAITED,
    some_backend,
    some_capture,
    some_query,
    some_reads,
)
from chromium import Chromium, Page
from html_page import HtmlPage
from pgtrace.lab.planner.result import Range, RangeDetails
from pgtrace.model.capture import (
    Backend,
    Capture,
    Heaviest,
    Interval,
    IntervalIo,
    Io,
    Operation,
    Source,
)
from pgtrace.model.lab_result import Result
from some_times import MS, probes, spent


def a_capture() -> Capture:
    several = some_backend(io=[CACHED, ISSUED, DEVICE, WAITED], queries=[some_query()])
    return some_capture(several, Backend(7, io=[CACHED]))


def a_result() -> Result:
    result = lab_results.pages_result(runs=3)
    details = RangeDetails([1.0, 2.0, 4.0], [2.0, 0.1, 3.0], 4.0, 4.0, 2.0, 8)
    result.findings += [
        Range("1 to 2", "hdd", 1.5, 1.0, 2.0, 5, details=details),
        lab_results.crossing(0.03, 0.02, 0.04, 5),
    ]
    return result


DOCUMENTS = {"capture": a_capture, "lab": a_result}

COLOURS = """
[...document.querySelectorAll('figure[data-chart]')].map((figure) =>
  [...figure.querySelectorAll('.u-wrap > canvas')].map((canvas) => {
    const found = new Set();
    const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    for (let at = 0; at < data.length; at += 4) {
      if (data[at + 3] === 255) found.add(data.slice(at, at + 3).join());
    }
    return [...found];
  }))
"""
"""Of each canvas of each figure, the colours that are drawn."""


def opened(chromium: Chromium, folder: Path, document: Any, **how: Any) -> tuple[Page, HtmlPage]:
    """The page in the browser, and as it is without one."""
    text = html_page.render(document)
    file = folder / "page.html"
    file.write_text(text)
    return chromium.open(file, **how), HtmlPage(text)


def colour(page: Page, name: str) -> str:
    """A colour of page.css in the scheme that is shown, as canvases tell it."""
    told: str = page.run(f"getComputedStyle(document.documentElement).getPropertyValue('--{name}')")
    digits = told.strip().removeprefix("#")
    return ",".join(str(int(digits[at : at + 2], 16)) for at in (0, 2, 4))


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("kind", DOCUMENTS)
def test_every_chart_is_drawn_in_its_colours(
    chromium: Chromium, tmp_path: Path, kind: str, dark: bool
) -> None:
    page, written = opened(chromium, tmp_path, DOCUMENTS[kind](), dark=dark)
    page.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    page.settle()
    shown = page.run(COLOURS)
    assert len(shown) == len(written.charts) > 5
    for chart, canvases in zip(written.charts, shown, strict=True):
        panels = {"latencies": 2, "percentiles": 1}
        assert len(canvases) == (panels.get(chart["kind"]) or len(chart["panels"]))
        drawn = {one for canvas in canvases for one in canvas}
        for layer in chart["layers"]:
            assert colour(page, layer["colour"]) in drawn, (chart["title"], layer["keys"])
    counts = page.run(
        "[...document.querySelectorAll('figure[data-chart]')].map((f) => +f.dataset.drawn)"
    )
    assert all(count >= len(c["layers"]) for count, c in zip(counts, written.charts, strict=True))
    labels = page.run(
        "[...document.querySelectorAll('figure[data-chart]')].map((figure) => "
        "[...figure.querySelectorAll('.legend button')].map((b) => b.textContent))"
    )
    for chart, names in zip(written.charts, labels, strict=True):
        assert set(names) == {key for layer in chart["layers"] for key in layer["keys"]}
    assert page.complaints() == []
    assert page.requests() == [(tmp_path / "page.html").as_uri()]
    if "PGTRACE_PICTURES" in os.environ:
        name = f"{kind}-{'dark' if dark else 'light'}.png"
        page.picture(Path(os.environ["PGTRACE_PICTURES"]) / name)


FRAMES = """
[...document.querySelectorAll('figure.flame .wide > svg > g > rect')].map((rect) => {
  const at = (length) => length.baseVal.value;
  const place = (shape) => [at(shape.x), at(shape.x) + at(shape.width)];
  const after = rect.nextElementSibling;
  const name = after && after.tagName === 'svg' ? after : null;
  return [rect.textContent, ...place(rect), at(rect.y), ...place(name || rect),
          name ? getComputedStyle(name).overflow : 'hidden', getComputedStyle(rect).fill];
})
"""
"""Of each frame: what it tells, where it lies, where its name may be drawn, its colour."""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_flame_graph_is_drawn_in_its_frames(
    chromium: Chromium, tmp_path: Path, dark: bool
) -> None:
    """Each in one of those above it, with its name within, however wide the letters are."""
    wide = some_query(
        text=f"select {'W' * 80}",
        times=[
            spent("cpu", 400 * MS),
            spent("sleep", 300 * MS, ("Lock", "transactionid")),
            spent("sleep", 100 * MS, ("IO", "DataFileRead")),
        ],
    )
    other = some_query(text=f"select {'漢字' * 9}", times=[spent("run_queue", 200 * MS)])
    backend = some_backend(datname="shop", times=[*wide.times, *other.times], queries=[wide, other])
    page, _ = opened(chromium, tmp_path, some_capture(backend, probes=probes()), dark=dark)
    frames = page.run(FRAMES)
    told = [frame[0].partition(":")[0] for frame in frames]
    assert {"shop", "CPU", "Lock", "transactionid", "waiting for a CPU"} <= {*told}
    for _, left, right, top, name_left, name_right, over, _ in frames:
        assert left - 1 <= name_left <= name_right <= right + 1
        assert over == "hidden"
        above = [frame for frame in frames if frame[3] < top - 1]
        row = max((frame[3] for frame in above), default=None)
        assert row is None or any(
            frame[1] - 1 <= left and right <= frame[2] + 1 for frame in above if frame[3] == row
        )
    fills = dict(zip(told, (frame[-1] for frame in frames), strict=True))
    assert len({fills[name] for name in ("shop", "CPU", "Lock", "IO", "waiting for a CPU")}) == 5
    assert page.complaints() == []
    if "PGTRACE_PICTURES" in os.environ:
        name = f"flame-{'dark' if dark else 'light'}.png"
        page.picture(Path(os.environ["PGTRACE_PICTURES"]) / name)


@pytest.mark.parametrize("ns", [0, 1, 3_000, 2**41])
def test_a_single_read_is_drawn(chromium: Chromium, tmp_path: Path, ns: int) -> None:
    """The shortest and the longest that there are, and one within a decade of its own."""
    reads = [some_reads([(ns, 1)], source="device")]
    page, written = opened(chromium, tmp_path, some_capture(Backend(7, io=reads)))
    assert [chart["kind"] for chart in written.charts] == ["latencies", "percentiles"]
    for canvas in (canvas for figure in page.run(COLOURS) for canvas in figure):
        # A share of no time has no height
        assert colour(page, "device") in canvas or ns == 0
    assert page.complaints() == []


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_the_numbers_of_the_tables_are_read_out_by_mouse_and_keys(
    chromium: Chromium, tmp_path: Path, kind: str
) -> None:
    page, written = opened(chromium, tmp_path, DOCUMENTS[kind]())
    for number, chart in enumerate(written.charts[:2]):
        table = written.table_of(number)
        page.run(f"document.querySelector('#chart-{number} .plot').focus()")
        for name, cells in table.rows.items():
            page.press("ArrowRight" if name != next(iter(table.rows)) else "Home")
            said = page.run(f"document.querySelector('#chart-{number} .readout').textContent")
            assert said.startswith(f"{name}:")
            for column, cell in zip(chart["columns"], cells, strict=True):
                if cell not in {"0", "0 %", "0 ns", "-"}:
                    assert f"{column} {cell}" in said
        page.press("Escape")
        assert page.run(f"document.querySelector('#chart-{number} .readout').textContent") == ""
    chart = next(n for n, of in enumerate(written.charts) if of["kind"] == "latencies")
    box = page.run(
        f"(() => {{ const over = document.querySelector('#chart-{chart} .u-over');"
        "over.scrollIntoView(); const box = over.getBoundingClientRect();"
        "return [box.left, box.top, box.width, box.height]; })()"
    )
    rows = list(written.table_of(chart).rows)
    for at in (0, len(rows) // 2, len(rows) - 1):
        page.point(box[0] + box[2] * (at + 0.5) / len(rows), box[1] + box[3] / 2)
        said = page.run(f"document.querySelector('#chart-{chart} .readout').textContent")
        assert said.startswith(f"{rows[at]}:")
        marked = page.run("[...document.querySelectorAll('tr.at th')].map((th) => th.textContent)")
        assert marked == [rows[at]]


def test_the_legend_hides_and_shows_by_mouse_and_keys(chromium: Chromium, tmp_path: Path) -> None:
    page, _ = opened(chromium, tmp_path, a_capture())
    device = colour(page, "device")
    assert all(device in canvas for canvas in page.run(COLOURS)[0])
    before = page.run("+document.querySelector('#chart-0').dataset.drawn")
    button = (
        "[...document.querySelectorAll('#chart-0 .legend button')]"
        ".find((button) => button.textContent === 'device')"
    )
    page.run(f"{button}.click()")
    page.settle()
    assert page.run(f"{button}.getAttribute('aria-pressed')") == "false"
    assert not any(device in canvas for canvas in page.run(COLOURS)[0])
    assert page.run("+document.querySelector('#chart-0').dataset.drawn") < before
    page.run(f"{button}.focus()")
    page.press("Enter")
    assert page.run(f"{button}.getAttribute('aria-pressed')") == "true"
    assert all(device in canvas for canvas in page.run(COLOURS)[0])


TABLE = """
[...document.querySelectorAll('table')].find((t) => t.caption.textContent === 'By relation')
"""


def a_capture_of(relations: dict[str, tuple[int, int]]) -> Capture:
    """Of each, how long a read took, and how many there were."""
    reads = [some_reads([each], kind="heap", relation=name) for name, each in relations.items()]
    intervals = [
        Interval(float(n), [], 1.0, [IntervalIo("read", "device", 1, 8192, MS, {19: 1})])
        for n in range(6)
    ]
    backend = some_backend(io=reads, queries=[some_query(text_hash="aa"), some_query(text="b")])
    return some_capture(backend, intervals=intervals, duration_s=6.0)


def names(page: Page) -> list[str]:
    """Of the rows that are seen, in order."""
    rows = f"[...{TABLE}.tBodies[0].rows].filter((row) => !row.hidden)"
    found: list[str] = page.run(f"{rows}.map((row) => row.cells[0].textContent)")
    return found


def sort_by(page: Page, column: str) -> str:
    """By its button; what is told of its order."""
    head = f"[...{TABLE}.tHead.rows[0].cells].find((th) => th.textContent === '{column}')"
    page.run(f"{head}.querySelector('button').focus()")
    page.press("Enter")
    told: str = page.run(f"{head}.getAttribute('aria-sort')")
    return told


def test_tables_are_sorted_by_what_their_cells_say(chromium: Chromium, tmp_path: Path) -> None:
    """In their units, the rows that stand for the rest always last."""
    relations = {f"of_ns_{n:02}": (900 + n, 3) for n in range(20)}
    relations |= {"slow": (2 * 10**9, 2), "often": (1_000, 4_000_000), "middle": (5 * MS, 40)}
    page, _ = opened(chromium, tmp_path, a_capture_of(relations))
    rest = names(page)[-1]
    assert rest.startswith("(")
    assert sort_by(page, "max") == "descending"
    assert [name.split()[0] for name in names(page)[:3]] == ["slow", "middle", "often"]
    assert names(page)[-1] == rest
    assert sort_by(page, "max") == "ascending"
    assert [name.split()[0] for name in names(page)[-4:-1]] == ["often", "middle", "slow"]
    assert names(page)[-1] == rest
    assert sort_by(page, "reads") == "descending"
    assert names(page)[0].startswith("often")
    assert sort_by(page, "relation") == "ascending"
    assert names(page)[:-1] == sorted(names(page)[:-1])
    assert page.complaints() == []


def test_a_long_table_is_searched(chromium: Chromium, tmp_path: Path) -> None:
    relations = {f"relation_{n}": (1000, 3) for n in range(15)}
    page, _ = opened(chromium, tmp_path, a_capture_of(relations))
    page.run(
        f"(() => {{ const input = {TABLE}.parentElement.previousElementSibling;"
        "input.value = 'RELATION_1'; input.dispatchEvent(new Event('input')); })()"
    )
    assert sorted(name.split()[0] for name in names(page)) == sorted(
        f"relation_{n}" for n in (1, 10, 11, 12, 13, 14)
    )


def test_links_lead_into_what_is_folded_up(chromium: Chromium, tmp_path: Path) -> None:
    """From a statement's row to its charts, and from a moment that is told to its row."""
    page, _ = opened(chromium, tmp_path, a_capture_of({"one": (1000, 3)}))
    for link in "#statement-aa", "#interval-1":
        where = f"document.getElementById('{link[1:]}')"
        assert page.run(f"{where}.closest('details').open") is False
        page.run(
            f'document.querySelector(\'.told [href="{link}"], tr [href="{link}"]\').dispatchEvent('
            "new MouseEvent('click', {bubbles: true, cancelable: true}))"
        )
        page.settle()
        assert page.run("location.hash") == link
        assert page.run(f"{where}.closest('details').open") is True
        assert page.run(f"{where}.matches(':target')") is True


def a_course() -> Capture:
    """Six seconds, in the third of which a statement waits for the device, and one for fsync."""
    slow = some_query(text="select slow", text_hash="aa", io=[DEVICE])
    sync = IntervalIo("fsync", "wait", 7, 0, 7 * MS, {19: 7})
    read = IntervalIo("read", "device", 5, 5 * 8192, 50 * MS, {23: 5})
    of = Heaviest("read", 5, 5 * 8192, 50 * MS, 5, 50 * MS, text_hash="aa", relation="t")
    intervals = [Interval(float(n), [], 1.0, [sync], []) for n in range(6)]
    intervals[2] = Interval(2.0, [], 1.0, [read, sync], [of])
    capture = some_capture(
        some_backend(queries=[slow]), some_backend(pid=7), intervals=intervals, duration_s=6.0
    )
    capture.probes.operations = ["read", "fsync"]
    return capture


TOLD = "document.querySelector('.told').innerText"
MARKS = "[...document.querySelectorAll('.mark')].map((mark) => mark.getBBox().x)"


def test_a_moment_is_picked_and_what_ran_then_is_told(chromium: Chromium, tmp_path: Path) -> None:
    """At first the worst one; then by the mouse in any chart, and by the keys of the slider. All
    charts mark it.
    """
    page, _ = opened(chromium, tmp_path, a_course())
    assert page.run(TOLD).startswith("12:00:02 length 1.00 s · reads: calls 5")
    assert "fsyncs: calls 7, time 7.00 ms" in page.run(TOLD)
    assert "reading: select slow (t): 50.0 ms, 50.0 ms of it waiting" in page.run(TOLD)
    first = page.run(MARKS)
    assert len(first) == 4
    assert len(set(first)) == 1
    for chart in range(4):
        at = 4 - chart
        box = page.run(
            f"(() => {{ const svg = document.querySelectorAll('figure.time .wide > svg')[{chart}];"
            "svg.scrollIntoView({block: 'end'}); const box = svg.getBoundingClientRect();"
            "return [box.left, box.bottom, box.width]; })()"
        )
        page.click(box[0] + box[2] * (76 + 884 * (at + 0.5) / 6) / 960, box[1] - 30)
        assert page.run(TOLD).startswith(f"12:00:0{at} ")
        assert len(set(page.run(MARKS))) == 1
    assert page.run("location.hash") == "", "nothing jumps away from the chart"
    page.run("document.querySelector('.moment input').focus()")
    for key, at in (
        ("ArrowRight", 2),
        ("ArrowRight", 3),
        ("Home", 0),
        ("End", 5),
        ("ArrowLeft", 4),
    ):
        page.press(key)
        assert page.run(TOLD).startswith(f"12:00:0{at} ")
        spoken = page.run("document.querySelector('.moment input').getAttribute('aria-valuetext')")
        assert spoken == f"12:00:0{at}"
    assert page.complaints() == []


def test_a_link_to_a_moment_tells_it(chromium: Chromium, tmp_path: Path) -> None:
    page, _ = opened(chromium, tmp_path, a_course())
    page.run("location.hash = '#interval-4'")
    page.settle()
    assert page.run(TOLD).startswith("12:00:04 ")


ROLES = {
    "button", "link", "searchbox", "slider", "group", "DisclosureTriangle", "RootWebArea",
}  # fmt: skip
"""Of what a key can reach."""


def test_every_stop_of_the_keyboard_has_a_role_and_a_name_and_is_seen(
    chromium: Chromium, tmp_path: Path
) -> None:
    """By Tab from the first to the last: in the order of the page, each with its focus drawn."""
    page, _ = opened(chromium, tmp_path, a_course())
    page.ask("Accessibility.enable")
    page.ask("DOM.enable")
    page.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    page.settle()
    tops, names = [], []
    for _ in range(400):
        page.press("Tab")
        if page.run("document.activeElement === document.body"):
            break
        focused = page.ask("Runtime.evaluate", expression="document.activeElement")["result"]
        nodes = page.ask(
            "Accessibility.getPartialAXTree", objectId=focused["objectId"], fetchRelatives=False
        )["nodes"]
        role, name = (nodes[0][what]["value"] for what in ("role", "name"))
        assert role in ROLES, (role, name)
        assert name.strip(), focused["description"]
        drawn = page.run("getComputedStyle(document.activeElement).outlineStyle")
        assert drawn != "none", (role, name)
        tops.append(page.run("[...document.querySelectorAll('*')].indexOf(document.activeElement)"))
        names.append((role, name))
    assert len(names) > 30
    assert tops == sorted(tops)
    charts = [name for role, name in names if role == "group" and name.startswith("Chart: ")]
    assert len(charts) == len(set(charts))
    folded = [name for role, name in names if role == "DisclosureTriangle"]
    assert len(folded) == len(set(folded)), "each says what it opens"


def test_a_screen_reader_is_told_of_charts_by_their_names_and_tables(
    chromium: Chromium, tmp_path: Path
) -> None:
    """And not of hundreds of rectangles; there is one heading above all, and none is left out."""
    page, _ = opened(chromium, tmp_path, a_course())
    page.ask("Accessibility.enable")
    nodes = page.ask("Accessibility.getFullAXTree")["nodes"]
    told = [
        (node["role"]["value"], node.get("name", {}).get("value", ""), node.get("properties", []))
        for node in nodes
        if not node["ignored"]
    ]
    roles = [role for role, _, _ in told]
    assert "graphics-symbol" not in roles
    images = [name for role, name, _ in told if role == "image"]
    assert len(images) == 5
    assert all(images)
    levels = [
        next(each["value"]["value"] for each in more if each["name"] == "level")
        for role, _, more in told
        if role == "heading"
    ]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert {"main", "navigation", "contentinfo"} <= set(roles)
    for role, name, _ in told:
        assert name or role not in {"table", "slider", "searchbox", "button", "link"}, role


def test_what_fits_is_no_stop_of_the_keyboard(chromium: Chromium, tmp_path: Path) -> None:
    """A table is one only where it has to be scrolled."""
    shown = "[...document.querySelectorAll('.wide')].filter((each) => each.checkVisibility())"
    stops = f"{shown}.filter((each) => each.tabIndex === 0).length"
    page, _ = opened(chromium, tmp_path, a_course(), width=1600)
    assert page.run(stops) == 0
    narrow, _ = opened(chromium, tmp_path, a_course(), width=360)
    assert narrow.run(stops) > 3


def of_a_large_server() -> Capture:
    """1,000 backends, 5,000 statements, ten minutes of a second each, in which reads, writes and
    fsyncs of many latencies were done by ever other statements.
    """
    drawn = random.Random(17)
    wal = {"kind": "wal", "operation": "write"}
    sync = {"kind": "wal", "operation": "fsync", "source": "wait", "bytes": 0, "blocks": 0}

    def some_io(number: int) -> list[Io]:
        of = {
            "kind": "heap",
            "relation": f"public.table_{number % 800}",
            "tablespace": "pg_default",
        }
        return [
            some_reads([(700, 90), (4_000 + number, 7)], **of),
            some_reads([(90_000 + number, 40), (2 * MS, 3)], source="device", **of),
            some_reads([(9_000 + number, 8)], **wal),
            some_reads([(MS + number, 4)], call="fdatasync", size=None, **sync),
        ]

    backends = []
    for n in range(1000):
        queries = [
            some_query(text=f"select {'a' * 90} from t{k}", text_hash=f"{k:x}", io=some_io(k))
            for k in range(5 * n, 5 * n + 5)
        ]
        io = [each for query in queries for each in query.io]
        backends.append(some_backend(pid=10_000 + n, queries=queries, io=io))

    def done(operation: Operation, source: Source) -> IntervalIo:
        powers = {power: drawn.randrange(1, 90) for power in range(10, 24)}
        count = sum(powers.values())
        return IntervalIo(operation, source, count, count * 8192, count * MS, powers)

    def heaviest() -> list[Heaviest]:
        return [
            Heaviest(operation, 50, 50 * 8192, 50 * MS, 50, 50 * MS,
                     text_hash=f"{drawn.randrange(5_000):x}", relation=f"public.table_{n}")
            for n, operation in enumerate(("read", "read", "read", "write", "fsync"))
        ]  # fmt: skip

    told = [("read", "page_cache"), ("read", "device"), ("write", "unknown"), ("fsync", "wait")]
    intervals = [
        Interval(float(n), [], 1.0, [done(*each) for each in told], heaviest()) for n in range(600)
    ]
    taken = some_capture(*backends, intervals=intervals, duration_s=600.0)
    taken.probes.operations = ["read", "write", "fsync"]
    return taken


@pytest.mark.alone  # it measures time
def test_of_a_large_server_it_is_small_and_soon_there(chromium: Chromium, tmp_path: Path) -> None:
    """Of three times the best."""
    text = html_page.render(of_a_large_server())
    assert len(text.encode()) < 5_000_000
    file = tmp_path / "page.html"
    file.write_text(text)
    there = "performance.getEntriesByType('navigation')[0].loadEventEnd"
    assert min(chromium.open(file).run(there) for _ in range(3)) < 1000


def test_a_narrow_screen_has_the_whole_page(chromium: Chromium, tmp_path: Path) -> None:
    """Only tables scroll sideways, each in its frame."""
    for make in DOCUMENTS.values():
        page, _ = opened(chromium, tmp_path, make(), width=360)
        page.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        page.settle()
        assert page.run("document.documentElement.scrollWidth") <= 360
        widths = page.run(
            "[...document.querySelectorAll('.plot .uplot')].map((p) => p.offsetWidth)"
        )
        assert widths
        assert all(200 < width <= 360 for width in widths)


def test_on_paper_it_is_light_and_fits(chromium: Chromium, tmp_path: Path) -> None:
    page, _ = opened(chromium, tmp_path, a_capture(), dark=True, width=1600)
    dark = colour(page, "device")
    scheme = {"name": "prefers-color-scheme", "value": "dark"}
    page.ask("Emulation.setEmulatedMedia", media="print", features=[scheme])
    page.settle()
    light = colour(page, "device")
    assert light != dark
    for canvas in page.run(COLOURS)[0]:
        assert light in canvas
        assert dark not in canvas
    printed = page.ask("Page.printToPDF", printBackground=False)["data"]
    assert base64.b64decode(printed).startswith(b"%PDF-")


def test_hostile_text_does_nothing_but_stand_there(chromium: Chromium, tmp_path: Path) -> None:
    backend = some_backend(application_name=HOSTILE, queries=[some_query(text=HOSTILE)])
    page, _ = opened(chromium, tmp_path, some_capture(backend, Backend(7, io=[CACHED])))
    assert page.run("document.querySelectorAll('img').length") == 0
    assert page.run("document.querySelectorAll('script').length") == 3
    assert HOSTILE_SHOWN in page.run("document.querySelector('#statements summary').textContent")
    assert page.complaints() == []


def test_a_script_that_is_not_of_the_page_is_not_run(chromium: Chromium, tmp_path: Path) -> None:
    """The policy holds, should an escape be forgotten: the second line behind it."""
    file = tmp_path / "page.html"
    text = html_page.render(a_capture())
    file.write_text(text.replace("</main>", "<script>document.title = 'run'</script></main>"))
    page = chromium.open(file)
    assert page.run("document.title") != "run"
    assert any("Content Security Policy" in str(one) for one in page.complaints())


def test_without_scripts_every_number_is_there(chromium: Chromium, tmp_path: Path) -> None:
    page, written = opened(chromium, tmp_path, a_capture())
    page.ask("Emulation.setScriptExecutionDisabled", value=True)
    chromium.events.clear()
    page.ask("Page.reload")
    chromium.wait_until_loaded()
    page.ask("Emulation.setScriptExecutionDisabled", value=False)
    assert page.run("document.querySelectorAll('canvas').length") == 0
    told = page.run("document.querySelector('#chart-0 table').innerText")
    for name, cells in written.table_of(0).rows.items():
        assert "\t".join([name, *cells]) in told
