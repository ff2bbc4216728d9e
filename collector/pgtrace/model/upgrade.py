"""From files of schema /1, which kept reads, writes and fsyncs in columns, to those of /2."""

from collections.abc import Iterable
from typing import Any

_LATENCY = {"count": "count", "sum": "total_ns", "min": "min_ns", "max": "max_ns"}
_TOTALS = {
    "read": ("reads", "bytes", "read_ns", "failed", "short"),
    "write": ("writes", "written_bytes", "write_ns", "failed_writes", "short_writes"),
    "fsync": ("fsyncs", "", "fsync_ns", "failed_fsyncs", ""),
}
"""What /2 calls count, bytes, total_ns, failed and short."""


def upgraded(document: Any) -> Any:
    """Return it as /2 would hold it.

    Raises ValueError if it lacks what /1 has. What it has of a wrong type may get through.
    """
    try:
        return _upgraded(document)
    except KeyError as error:
        raise ValueError(f"it has no {error}") from error
    except (AttributeError, TypeError) as error:
        raise ValueError(f"it is of another shape: {error}") from error


def _upgraded(old: dict[str, Any]) -> dict[str, Any]:
    new = old | {"schema": old["schema"].replace("/1", "/2")}
    new["probes"] = {"type" if k == "reads" else k: v for k, v in old["probes"].items()}
    operations = old["probes"].get("operations", ["read"])
    if len(operations) > len(_TOTALS):  # of which each is added up
        raise ValueError("an operation is there twice")
    new["lost"] = _lost(old["lost"], operations)
    if "cells" in old:
        cells = [_cell(cell) for cell in old["cells"]]
        new["cells"] = [cell for cell in cells if "plan" not in cell]
        if old["experiment"] == "pages":  # those of the sweep stood among the others
            new["plans"] = [cell for cell in cells if "plan" in cell]
        return new
    new["backends"] = [_backend(backend, operations) for backend in old["backends"]]
    io = [each for backend in new["backends"] for each in backend["io"]]
    new["totals"] = {operation: _total(old["totals"], operation, io) for operation in operations}
    return new


def _lost(old: dict[str, Any], operations: Iterable[str]) -> dict[str, Any]:
    new = {key: old.get(f"{key}s", 0) for key in _TOTALS}
    columns = ("in_flight", "writes_in_flight", "fsyncs_in_flight")
    in_flight = {key: old.get(column, 0) for key, column in zip(_TOTALS, columns, strict=True)}
    taken = {*columns, *(f"{key}s" for key in _TOTALS)}
    new["in_flight"] = {operation: in_flight[operation] for operation in operations}
    return new | {key: value for key, value in old.items() if key not in taken}


def _total(old: dict[str, Any], operation: str, io: Iterable[dict[str, Any]]) -> dict[str, Any]:
    names = zip(("count", "bytes", "total_ns", "failed", "short"), _TOTALS[operation], strict=True)
    own = [each for each in io if each.get("operation", "read") == operation]
    summed = {key: sum(each[key] for each in own) for key in ("blocks", "device_bytes")}
    known = {key: old[key] for key in summed} if operation == "read" else {}
    return summed | known | {name: old[column] for name, column in names if column in old}


def _backend(old: dict[str, Any], operations: Iterable[str]) -> dict[str, Any]:
    new = {key: value for key, value in old.items() if not key.startswith(("failed", "short"))}
    new["io"] = [_io(each) for each in new.pop("reads", [])]
    for key in "failed", "short":
        columns = ("read", key), ("write", f"{key}_writes"), ("fsync", f"{key}_fsyncs")
        new[key] = {
            operation: old[column]
            for operation, column in columns
            if operation in operations and column in old
        }
    new["queries"] = [_query(query) for query in old.get("queries", [])]
    return new


def _query(old: dict[str, Any]) -> dict[str, Any]:
    new = {key: value for key, value in old.items() if key != "reads"}
    new["io"] = [_io(each) for each in old.get("reads", [])]
    new["latency"] = old["latency"] and _latency(old["latency"], old["latency"])
    return new


def _cell(old: dict[str, Any]) -> dict[str, Any]:
    new = {key: value for key, value in old.items() if key != "reads"}
    if "reads" in old:
        new["io"] = [_io(each) for each in old["reads"]]
    if "by_backend_type" in old:
        types = old["by_backend_type"].items()
        new["by_backend_type"] = {name: [_io(each) for each in several] for name, several in types}
    return new


def _io(old: dict[str, Any]) -> dict[str, Any]:
    new = {k: v for k, v in old.items() if k not in {*_LATENCY.values(), "histogram"}}
    return new | {"latency": _latency(old, old["histogram"])}


def _latency(old: dict[str, Any], histogram: dict[str, Any]) -> dict[str, Any]:
    new = {name: old[column] for name, column in _LATENCY.items() if column in old}
    return new | {key: histogram[key] for key in ("unit", "buckets") if key in histogram}
