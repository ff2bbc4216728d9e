"""A lab result as text: what a reader must be told, and that it fits."""

import re
from pathlib import Path

import msgspec
import pytest

import lab_results
from pgtrace.__main__ import main
from pgtrace.files import output_file
from pgtrace.lab import result_report
from pgtrace.lab.pages.findings import findings
from pgtrace.lab.pages.result import PagesResult
from pgtrace.lab.planner.result import SweepOptions
from pgtrace.model import encoding
from pgtrace.model.capture import Lost
from pgtrace.model.lab_result import Storage


def flat(text: str) -> str:
    """Without the line breaks of sentences."""
    return re.sub(r"\s+", " ", text)


@pytest.fixture
def result() -> PagesResult:
    found = lab_results.pages_result()
    found.findings = findings(found)
    return found


@pytest.mark.parametrize("width", [80, 100, 132])
def test_it_fits(result: PagesResult, width: int) -> None:
    lengths = [len(line) for line in result_report.render(result, width=width).splitlines()]
    assert 78 <= max(lengths) <= width


def test_every_line_of_sums_and_every_row_of_a_table_is_there(result: PagesResult) -> None:
    text = result_report.render(result)
    for name in ("runs", "bytes", "blocks of 8 KiB", "from the device", "mean per block",
                 "p50 of a read", "p90", "p99", "max", "elapsed per block"):  # fmt: skip
        assert re.findall(rf"^  {name}  ", text, re.MULTILINE), name
    for name in ("all", "where served", "what was read", "  heap", "  index", "at a time",
                 "  1 block", "in what order", "  random"):  # fmt: skip
        assert len(re.findall(rf"^  {name}(?:  |$)", text, re.MULTILINE)) == 3, name


def test_both_histograms_stand_in_the_same_rows_and_no_read_is_missing(result: PagesResult) -> None:
    text = result_report.render(result)
    block = text.partition("hdd (simulated): how long a read took, random over sequential\n")[2]
    rows = [
        re.fullmatch(r" *([\d.,]+ \S+) +([\d,]+) █* +(\S+ %) +([\d,]+) █* +(\S+ %)", line)
        for line in block.partition("\n\n")[0].splitlines()[2:]
    ]
    assert all(rows)
    for column, pattern in ((2, "sequential"), (4, "random")):
        counted = sum(int(row[column].replace(",", "")) for row in rows if row)
        cells = [c for c in result.cells if (c.storage, c.pattern) == ("hdd", pattern)]
        assert counted == sum(r.count for c in cells for r in c.io)
    shown = [row[1] for row in rows if row]
    assert shown[shown.index("8.2 µs") : shown.index("1.05 ms")] == [
        "8.2 µs", "16.4 µs", "32.8 µs", "65.5 µs", "131 µs", "262 µs", "524 µs",
    ]  # fmt: skip


def test_the_word_simulated_is_wherever_a_simulated_storage_is_named(result: PagesResult) -> None:
    for line in result_report.render(result).splitlines():
        if re.search(r"\b(hdd|ssd)\b", line.replace("/mnt/hdd", "").replace("/mnt/ssd", "")):
            assert "imulated" in line, line


def test_what_is_real_is_not_called_simulated() -> None:
    text = result_report.render(lab_results.pages_result([lab_results.DISK, lab_results.TMPFS]))
    assert "imulated" not in text
    assert "virtual: what is below it cannot be seen" in flat(text)
    assert "tmpfs: memory, without a device (tmpfs); in /dev/shm/t" in text


def test_the_kind_of_device_is_told(result: PagesResult) -> None:
    assert (
        "hdd (simulated): ext4 on loop0, rotational, scheduler none, read-ahead 128 KiB, "
        "queue depth 1; in /mnt/hdd"
    ) in flat(result_report.render(result))


def test_how_it_was_made_is_told(result: PagesResult) -> None:
    result.options = msgspec.structs.replace(
        result.options, cpu_server=0, cpu_tracer=1, drop_caches=True, table_bytes=1 << 20,
        restarted=True,
    )  # fmt: skip
    text = flat(result_report.render(result))
    assert "5 runs of each query on each storage, in an order drawn at random with seed 2." in text
    assert "100,000 rows (heap 1.0 MiB)" in text
    assert "Cold by posix_fadvise: at most 0 % of the pages were in the page cache" in text
    assert "Cached: at least 100 % of the pages were in the page cache" in text
    assert "The whole host's caches were dropped before each run." in text
    assert "The server was started again before each run." in text
    assert "Server on CPU 0, tracer on CPU 1." in text
    assert "Random: select * from tbl_cost_align where id > 1992000000" in text
    assert "The shortest read that was seen took " in text


def test_what_was_lost_not_measured_or_cut_short_is_told(result: PagesResult) -> None:
    assert "Lost: nothing." in result_report.render(result)
    result.lost = Lost(read=12, in_flight={"read": 1})
    result.probes.not_measured = ["queries: no probe"]
    result.partial = True
    del result.cells[18:]
    result.findings = []
    text = flat(result_report.render(result))
    assert "Lost, and in no number here: 12 reads. Under way when tracing stopped: 1 read." in text
    assert "Not measured: queries: no probe" in text
    assert "Partial: 3 of 5 runs; it did not get to the rest." in text
    assert "3 of 5 runs of each query" in text


TOLD = {
    "read": "Lost, and in no number here: 2 reads.",
    "write": "Lost, and in no number here: 2 writes.",
    "fsync": "Lost, and in no number here: 2 fsyncs.",
    "queries": "Lost, and in no number here: 2 queries.",
    "backends": "Lost, and in no number here: 2 whole backends.",
    "times": "Lost, and in no number here: 2 pieces of processes' time.",
    "statements": "Told in part: 2 calls without their statement.",
    "unplaced": "Told in part: 2 reads, writes and fsyncs without their file.",
    "latencies": "Told in part: 2 calls in no histogram.",
    "missed": "2 times the kernel left out a probe",
    "in_flight": "Under way when tracing stopped: 2 fsyncs.",
}


def test_every_loss_has_its_words() -> None:
    """But for the reasons of others."""
    assert {*TOLD, "no_slot", "no_chunk"} == {*Lost.__struct_fields__}


@pytest.mark.parametrize("name", TOLD)
def test_a_loss_is_told(result: PagesResult, name: str) -> None:
    setattr(result.lost, name, {"fsync": 2} if name == "in_flight" else 2)
    text = flat(result_report.render(result))
    assert TOLD[name] in text
    assert "Lost: nothing." not in text


def test_a_run_that_was_not_cold_is_named_and_left_out(result: PagesResult) -> None:
    result.cells[0] = msgspec.structs.replace(result.cells[0], resident_before=0.34)
    result.cells[1] = msgspec.structs.replace(result.cells[1], resident_before=None)
    text = flat(result_report.render(result))
    assert (
        "Left out: hdd (simulated), sequential, run 1: 34.0 % of its pages were cached when it "
        "began, not cold."
    ) in text
    assert "Not proven cold or cached: hdd (simulated), random, run 1." in text
    assert re.search(r" runs 4 5 ", text)


def test_document_002_stands_beside_with_its_block_size_and_no_target(result: PagesResult) -> None:
    text = result_report.render(result)
    assert "Means per read of 32 kB, and ours, per 8 KiB" in text
    assert re.search(r"HDD, SAS 10,000 rpm, RAID cache on +198 µs +4\.96 ms +25\n", text)
    assert re.search(r"SSD, OCZ RevoDrive3 +49\.6 µs +484 µs +9\.7\n", text)
    assert re.search(r"OS cache, with SystemTap's own cost +11\.4 µs +18\.6 µs +1\.6\n", text)
    assert "never a target" in flat(text)
    assert "cpu_tuple_cost 0.000189, cpu_index_tuple_cost 0.004335" in flat(text)


def test_what_was_counted_in_every_run_is_shown_and_nothing_else(result: PagesResult) -> None:
    for cell in result.cells:
        cell.shared_hits, cell.device_requests = 7, 40
    text = result_report.render(result)
    assert re.search(r"^  shared hits(?: +35)+$", text, re.MULTILINE)
    assert re.search(r"^  device requests(?: +200)+$", text, re.MULTILINE)
    for cell in result.cells:
        if cell.run == 3:
            cell.shared_hits = None
    assert "shared hits" not in result_report.render(result)


def test_no_sql_is_printed(result: PagesResult) -> None:
    assert not re.search(
        "alter (tablespace|system)|set random_page_cost", result_report.render(result), re.I
    )


def test_a_result_without_a_finished_run_says_so() -> None:
    text = result_report.render(lab_results.pages_result(runs=0))
    assert "No run was finished: there is nothing to show." in text


def test_one_pattern_alone_is_shown_without_the_other(result: PagesResult) -> None:
    result.cells = [cell for cell in result.cells if cell.pattern == "random"]
    result.findings = findings(result)
    text = result_report.render(result)
    assert re.search(r"^  runs(?: +5)+$", text, re.MULTILINE)
    assert "Random by sequential" not in text


def test_reads_by_io_workers_are_said_to_overlap(result: PagesResult) -> None:
    for cell in result.cells:
        cell.io = [msgspec.structs.replace(r, performed_by="io worker") for r in cell.io]
    text = flat(result_report.render(result))
    assert "overlaps with the backend's work: compare the elapsed time." in text
    assert "I/O workers 8,000 100 %" in text


def test_options_that_nobody_knows_any_more_are_not_told(result: PagesResult) -> None:
    result.options = SweepOptions()
    text = result_report.render(result)
    assert "Random by sequential" in text
    assert "None" not in text


def test_names_cannot_act_on_a_terminal() -> None:
    odd = Storage("a\x1b[2J", "/x\x1b[2J")
    result = lab_results.pages_result([odd, lab_results.MEMORY], runs=2)
    result.options.queries["random"] = "\x1b[2J"
    assert "\x1b" not in result_report.render(result)


# pgtrace report


@pytest.fixture
def file(result: PagesResult, tmp_path: Path) -> Path:
    path = tmp_path / "pages.json"
    output_file.write(encoding.encode(result), path)
    return path


def test_report_shows_a_lab_result(
    file: Path, result: PagesResult, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(file)]) == 0
    assert capsys.readouterr() == (result_report.render(result), "")
    assert main(["report", str(file), "--json"]) == 0
    assert capsys.readouterr() == (file.read_text(), "")
    assert encoding.encode(result) == file.read_bytes()


@pytest.mark.parametrize("option", ["--planner", "--format=hlog"])
def test_forms_of_captures_alone_are_refused(
    file: Path, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(file), option]) == 2
    assert "is the result of a lab experiment" in capsys.readouterr().err
