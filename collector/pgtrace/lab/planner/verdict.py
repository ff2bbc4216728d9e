"""What a range of random_page_cost means: keep the present value, set another, or not decided."""

from collections.abc import Sequence

from ...model.lab_result import Storage
from .regret import Excess, Timed, best_range, excess, held_out


def verdict(
    storage: Storage, points: Sequence[Timed], values: Sequence[float], current: float
) -> tuple[str, str | None]:
    """In words; and the SQL, where there is something to set, and somewhere to set it."""
    found = best_range(points, values)
    low, high, middle = (f"{values[n]:g}" for n in (found.low, found.high, found.middle))
    shown = low if low == high else f"{low} to {high}"
    if found.high == len(values) - 1:
        shown = f"{low} or more"
    now = excess(points, values.index(current), found.best)
    chosen = excess(points, found.middle, found.best)
    out = held_out(points, values)
    if not now or not chosen or not out:
        return f"not decided: {shown}, but one run has no interval; make more", None
    if now.is_in:
        return f"keep {current:g}: it is as good as any of {shown}", None
    means = f"the plans picked with {current:g} take {_share(now)} longer than the best"
    doubt = _doubt(now, chosen, out, means, middle)
    if doubt:
        return f"not decided: {shown}, but {doubt}", None
    why_not = _nothing_to_set(storage)
    if why_not:
        return f"{shown}: {means}; {why_not}", None
    return f"{shown}: {means}", f"ALTER TABLESPACE … SET (random_page_cost = {middle});"


def _doubt(now: Excess, chosen: Excess, out: Excess, means: str, middle: str) -> str | None:
    """What speaks against setting the middle of the range."""
    if not now.is_out:
        return f"{means}; more runs would tell"
    if not chosen.is_in:
        return f"noise hides how good {middle} is; more runs would tell"
    if out.is_out:
        return f"chosen on half of the points, it makes the others {_share(out)} longer than best"
    return None


def _nothing_to_set(storage: Storage) -> str | None:
    if storage.simulated:
        return "no setting follows from a simulation"
    if storage.medium != "device":
        return "memory is no storage to set it for"
    return None


def _share(found: Excess) -> str:
    return f"{100 * found.share:.0f} ± {100 * found.spread:.0f} %"
