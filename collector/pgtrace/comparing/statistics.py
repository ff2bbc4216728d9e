"""What is compared of two sessions: each as a logarithm, because ratios multiply."""

from collections.abc import Sequence
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
    """Time per block of the kinds that both have, had they the same blocks on both sides.

    Fisher's ideal index (I. Fisher, The Making of Index Numbers (1922)): the geometric mean of
    two, one with A's blocks and one with B's. Of what one side alone has nobody knows how fast it
    would be on the other: it is in no index of how fast things are, and so is of the mix.
    """
    both = [key for key, each in a.sums.items() if each.blocks and _blocks(b, key)]
    cost_a = {key: a.sums[key].total_ns / a.sums[key].blocks for key in both}
    cost_b = {key: b.sums[key].total_ns / b.sums[key].blocks for key in both}
    aa = sum(a.sums[key].blocks * cost_a[key] for key in both)
    ab = sum(a.sums[key].blocks * cost_b[key] for key in both)
    ba = sum(b.sums[key].blocks * cost_a[key] for key in both)
    bb = sum(b.sums[key].blocks * cost_b[key] for key in both)
    if not min(aa, ab, ba, bb) > 0:
        return None
    return log(sqrt(ab / aa * bb / ba))


def mix(a: Piece, b: Piece) -> float | None:
    """Time per block, had each kind been as fast on both sides: what speed() leaves of
    block_time(). All of them turn round where A and B are exchanged.
    """
    whole, own = block_time(a, b), speed(a, b)
    return None if whole is None or own is None else whole - own


def in_common(own: Piece, sides: Sequence[Piece]) -> float | None:
    """Of one side, which part is of kinds that both have: of its blocks or of its time, whichever
    is more. None if it did nothing."""
    sums = {key: each for key, each in own.sums.items() if all(_blocks(s, key) for s in sides)}
    return share(own, Piece(own.seconds, sums))


def share(own: Piece, part: Piece) -> float | None:
    """Which part of it that is, of its blocks or of its time, whichever is more. None if it did
    nothing."""
    whole, of_it = own.whole, part.whole
    if not whole.blocks or not whole.total_ns:
        return None
    return max(of_it.blocks / whole.blocks, of_it.total_ns / whole.total_ns)


def _blocks(piece: Piece, key: Stratum) -> int:
    each = piece.sums.get(key)
    return each.blocks if each else 0
