"""What is compared of two sessions: each as a logarithm, because ratios multiply."""

from math import log, sqrt

from .pieces import Piece, Stratum


def block_time(a: Piece, b: Piece) -> float | None:
    """Time per block."""
    one, other = a.whole, b.whole
    if not (one.blocks and other.blocks and one.total_ns and other.total_ns):
        return None
    return log(other.total_ns / other.blocks) - log(one.total_ns / one.blocks)


def block_rate(a: Piece, b: Piece) -> float | None:
    """Blocks per second."""
    return _rate(a.whole.blocks, b.whole.blocks, a, b)


def time_rate(a: Piece, b: Piece) -> float | None:
    """Time that it took per second."""
    return _rate(a.whole.total_ns, b.whole.total_ns, a, b)


def _rate(one: float, other: float, a: Piece, b: Piece) -> float | None:
    if not (one and other and a.seconds > 0 and b.seconds > 0):
        return None
    return log(other / b.seconds) - log(one / a.seconds)


def speed(a: Piece, b: Piece) -> float | None:
    """Time per block, had blocks come from the same places on both sides.

    Fisher's ideal index (I. Fisher, The Making of Index Numbers (1922)): the geometric mean of
    two, one with A's blocks and one with B's. With mix() it makes block_time(), and both turn round
    where A and B are exchanged. What one side alone has is as fast on the other.
    """
    found = _indices(a, b)
    return found and found[0]


def mix(a: Piece, b: Piece) -> float | None:
    """Time per block, had each place been as fast on both sides: the other of Fisher's two."""
    found = _indices(a, b)
    return found and found[1]


def _indices(a: Piece, b: Piece) -> tuple[float, float] | None:
    strata = a.sums.keys() | b.sums.keys()
    cost_a = {key: cost for key in strata if (cost := _cost(a, b, key)) is not None}
    cost_b = {key: cost for key in strata if (cost := _cost(b, a, key)) is not None}
    blocks_a = {key: _blocks(a, key) for key in cost_a}
    blocks_b = {key: _blocks(b, key) for key in cost_a}
    whole_a, whole_b = sum(blocks_a.values()), sum(blocks_b.values())
    if not whole_a or not whole_b:
        return None
    aa = sum(blocks_a[key] * cost_a[key] for key in cost_a) / whole_a
    ab = sum(blocks_a[key] * cost_b[key] for key in cost_a) / whole_a
    ba = sum(blocks_b[key] * cost_a[key] for key in cost_a) / whole_b
    bb = sum(blocks_b[key] * cost_b[key] for key in cost_a) / whole_b
    if not min(aa, ab, ba, bb) > 0:
        return None
    return log(sqrt(ab / aa * bb / ba)), log(sqrt(ba / aa * bb / ab))


def _blocks(piece: Piece, key: Stratum) -> int:
    each = piece.sums.get(key)
    return each.blocks if each else 0


def _cost(own: Piece, other: Piece, key: Stratum) -> float | None:
    """Of a block; where there was none, as on the other side."""
    for piece in (own, other):
        each = piece.sums.get(key)
        if each and each.blocks:
            return each.total_ns / each.blocks
    return None
