"""Times of day, in UTC, as they are typed: of a session, which moment is meant."""

import re
from datetime import UTC, datetime, timedelta

from .capture import Capture

_TIME = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?")


def is_time(text: str) -> bool:
    """Whether it is one, such as 14:05 or 14:05:30."""
    return _TIME.fullmatch(text) is not None


def started_at(capture: Capture) -> datetime:
    """When the session began, in UTC."""
    return datetime.fromisoformat(capture.started).astimezone(UTC)


def moment(capture: Capture, second: float) -> str:
    """A time of the session, in UTC, as it is shown."""
    return f"{started_at(capture) + timedelta(seconds=second):%H:%M:%S}"


def second_of(capture: Capture, text: str) -> float:
    """Of the session, a time of day on the day that is nearest to its start. Raises ValueError if
    it is none.
    """
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError(f"{text} is no time of day")
    hour, minute, second = (int(part or 0) for part in found.groups())
    began = started_at(capture)
    then = began.replace(hour=hour, minute=minute, second=second, microsecond=0)
    day = timedelta(days=1)
    # What is shown as the session's first second began within it
    while then <= began - timedelta(seconds=1):
        then += day
    if then - began > day / 2 and then - began > timedelta(seconds=capture.duration_s):
        then -= day
    return (then - began).total_seconds()
