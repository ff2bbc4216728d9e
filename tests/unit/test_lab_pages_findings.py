"""What follows from the pages experiment, from results whose truth is known."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lab_results
from pgtrace.lab.pages.findings import findings
from pgtrace.lab.pages.result import PagesResult
from pgtrace.model.histogram import Histogram
from pgtrace.model.lab_result import Finding, Storage


def find(result: PagesResult, name: str, **wanted: object) -> list[Finding]:
    every = [f for f in findings(result) if f.name == name]
    return [f for f in every if wanted.items() <= lab_results.details(f).items()]


def verdicts(first: Storage, second: Storage, **how: object) -> list[str]:
    result = lab_results.pages_result([first, second], **how)  # type: ignore[arg-type]
    return [f.verdict for f in find(result, "between")]


def test_the_ratio_is_that_of_the_means_by_latency_and_by_elapsed_time() -> None:
    result = lab_results.pages_result([lab_results.DISK], noise=0.01)
    (latency,) = find(result, "ratio", by="read latency")
    (elapsed,) = find(result, "ratio", by="elapsed time")
    # of 420 blocks 400 wait for 500 µs; of 1,600 in order 100: see lab_results.cell()
    truth = (400 * 500 + 20 * 4) / 420 / ((100 * 500 + 1500 * 4) / 1600)
    assert latency.low and latency.high and latency.value
    assert latency.low < latency.value < latency.high
    assert latency.value == pytest.approx(truth, rel=0.05)
    assert latency.units == 5
    assert latency.verdict.startswith("a random block took ")
    assert (elapsed.value or 0) < latency.value


def test_the_order_of_storages_is_found_each_gap_outside_its_interval() -> None:
    result = lab_results.pages_result((lab_results.MEMORY, lab_results.SSD, lab_results.HDD))
    found = find(result, "between", pattern="random", by="mean per 8 KiB")
    assert [(f.storage, f.details.against) for f in found] == [
        ("ssd", "memory"),
        ("hdd", "memory"),
        ("hdd", "ssd"),
    ]
    assert all((f.low or 0) > 1 for f in found)
    assert found[0].verdict.startswith("ssd (simulated) is slower: ")


def test_the_same_under_two_names_makes_no_difference() -> None:
    again = lab_results.named(lab_results.DISK, "again")
    found = verdicts(lab_results.DISK, again)
    assert len(found) == 3
    assert all(words.startswith("no difference larger than ") for words in found)


def test_a_stall_moves_the_mean_and_not_the_median() -> None:
    again = lab_results.named(lab_results.DISK, "again")
    result = lab_results.pages_result([lab_results.DISK, again], noise=0.01)
    for cell in result.cells[::7]:
        stall = Histogram()
        stall.add(400_000_000)
        (some, *_) = cell.io
        cell.io.append(
            msgspec.structs.replace(
                some, bytes=8192, latency=stall.to_data(),
            )
        )  # fmt: skip
    (mean,) = find(result, "between", pattern="random", by="mean per 8 KiB")
    (median,) = find(result, "between", pattern="random", by="p50 of a read")
    assert mean.verdict.startswith("not decided: ")
    assert median.verdict.startswith("no difference ")


def test_the_same_measured_badly_is_not_decided() -> None:
    again = lab_results.named(lab_results.DISK, "again")
    assert all(w.startswith("not decided: ") for w in verdicts(lab_results.DISK, again, noise=0.5))


@pytest.mark.parametrize(("runs", "units"), [(1, 1), (0, None)])
def test_one_run_has_means_and_no_verdict(runs: int, units: int | None) -> None:
    result = lab_results.pages_result([lab_results.HDD], runs=runs)
    assert [(f.units, f.low, f.verdict) for f in find(result, "ratio")] == [
        (units, None, "simulated: not decided: one run has no interval")
    ] * (2 * runs)


def test_runs_that_are_not_in_both_are_not_compared() -> None:
    result = lab_results.pages_result([lab_results.HDD], runs=4)
    del result.cells[0]
    assert [f.units for f in find(result, "ratio")] == [3, 3]
    result.cells[0] = msgspec.structs.replace(result.cells[0], resident_before=0.2)
    assert [f.units for f in find(result, "ratio")] == [3, 3]


def test_where_the_time_went_is_said() -> None:
    result = lab_results.pages_result([lab_results.DISK], noise=0.0)
    (served,) = find(result, "served", pattern="sequential")
    assert served.details.shares["device"].reads == pytest.approx(100 / 1600)
    assert served.details.shares["device"].time == pytest.approx(50 / 56, abs=0.02)
    assert served.verdict.startswith("6.2 % of the sequential reads waited for the device, and ")


def test_what_was_not_told_is_not_taken_for_no_device() -> None:
    result = lab_results.pages_result([lab_results.DISK], runs=1)
    for cell in result.cells:
        cell.io = [msgspec.structs.replace(r, source="unknown") for r in cell.io]
    assert {f.verdict for f in find(result, "served")} == {
        "where reads were served was not measured"
    }


def test_a_time_of_no_reads_is_no_share() -> None:
    """As in a file that another hand wrote."""
    result = lab_results.pages_result([lab_results.DISK], runs=1)
    for reads in (each for cell in result.cells for each in cell.io):
        reads.latency.buckets = ()
    assert find(result, "served") == []


@pytest.mark.parametrize("performer", ["backend", "parallel worker", "io worker", "io_uring"])
def test_what_is_read_while_the_backend_goes_on_makes_elapsed_time_count(performer: str) -> None:
    result = lab_results.pages_result([lab_results.DISK], runs=2)
    for cell in result.cells:
        if cell.pattern == "sequential":
            cell.io = [msgspec.structs.replace(r, performed_by=performer) for r in cell.io]
    latency, elapsed = find(result, "ratio")
    assert ("elapsed time counts" in latency.verdict) == performer.startswith("io")
    assert "elapsed time counts" not in elapsed.verdict


def test_cpu_time_is_per_tuple_and_in_units_of_a_sequential_block() -> None:
    result = lab_results.pages_result([lab_results.MEMORY], noise=0.0)
    sequential, random = find(result, "cpu_per_tuple")
    assert (sequential.value, random.value) == (pytest.approx(190), pytest.approx(190))
    assert sequential.details.of_sequential_block == pytest.approx(190 / 4127, rel=0.02)
    assert sequential.verdict.endswith("no setting follows from it")


@given(st.sampled_from([1, 3]), st.booleans())
def test_every_verdict_of_what_is_simulated_says_so(runs: int, both: bool) -> None:
    storages = [lab_results.SSD, lab_results.HDD if both else lab_results.MEMORY]
    for f in findings(lab_results.pages_result(storages, runs=runs, noise=0.2)):
        told = lab_results.details(f)
        simulated = "ssd" in (f.storage, told.get("against")) or f.storage == "hdd"
        assert ("simulated" in f.verdict) == simulated
        assert told.get("simulated", False) == simulated


def test_a_name_with_braces_is_only_a_name() -> None:
    odd = lab_results.named(lab_results.HDD, "{0}{x")
    assert any("{0}{x" in words for words in verdicts(odd, lab_results.MEMORY))


def test_nothing_here_is_a_setting() -> None:
    for f in findings(lab_results.pages_result([lab_results.DISK, lab_results.TMPFS])):
        assert "random_page_cost" not in f.verdict
        assert "alter" not in f.verdict.lower()
