"""The HTML page in headless Chromium: what it shows once its scripts ran, and how it is used.

PGTRACE_PICTURES=DIR keeps pictures of it there, to be looked at.
"""

import base64
import os
import shutil
from collections.abc import Iterator
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
from chromium import COMMAND, Chromium, Page
from html_page import HtmlPage
from pgtrace.lab.planner.result import Range, RangeDetails
from pgtrace.model.capture import Backend, Capture, Heaviest, Interval, IntervalIo
from pgtrace.model.lab_result import Result

MS = 1_000_000


@pytest.fixture(scope="module")
def chromium() -> Iterator[Chromium]:
    if shutil.which(COMMAND) is None:
        pytest.skip("no Chromium: apt-get install chromium")
    with Chromium() as browser:
        yield browser


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
    """From a statement's row to its charts, and from a moment of the session to what ran then."""
    page, _ = opened(chromium, tmp_path, a_capture_of({"one": (1000, 3)}))
    for link in "#statement-aa", "#interval-1":
        where = f"document.getElementById('{link[1:]}')"
        assert page.run(f"{where}.closest('details').open") is False
        page.run(
            f"document.querySelector('[href=\"{link}\"]').dispatchEvent("
            "new MouseEvent('click', {bubbles: true, cancelable: true}))"
        )
        page.settle()
        assert page.run("location.hash") == link
        assert page.run(f"{where}.closest('details').open") is True
        assert page.run(f"{where}.matches(':target')") is True


def of_a_large_server() -> Capture:
    """1,000 backends, 5,000 statements, ten minutes of a second each."""
    backends = [
        some_backend(
            pid=10_000 + n,
            queries=[
                some_query(text=f"select {'a' * 30} from t{k}", text_hash=f"{k:x}", io=[DEVICE])
                for k in range(5 * n, 5 * n + 5)
            ],
        )
        for n in range(1000)
    ]
    done = [IntervalIo("read", "device", 50, 50 * 8192, 50 * MS, dict.fromkeys(range(10, 20), 5))]
    ran = [Heaviest("read", 50, 50 * 8192, 50 * MS, 50, 50 * MS, text_hash="0", relation="t")]
    intervals = [Interval(float(n), [], 1.0, done, ran) for n in range(600)]
    return some_capture(*backends, intervals=intervals, duration_s=600.0)


@pytest.mark.alone  # it measures time
def test_of_a_large_server_it_is_small_and_soon_there(chromium: Chromium, tmp_path: Path) -> None:
    """Of three times the best: 0.8 s were measured, with both processors at work beside it."""
    text = html_page.render(of_a_large_server())
    assert len(text) < 5_000_000
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
    chromium.wait_for("Page.loadEventFired")
    page.ask("Emulation.setScriptExecutionDisabled", value=False)
    assert page.run("document.querySelectorAll('canvas').length") == 0
    told = page.run("document.querySelector('#chart-0 table').innerText")
    for name, cells in written.table_of(0).rows.items():
        assert "\t".join([name, *cells]) in told
