"""A capture less an earlier one of its session is what was measured between them."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from captures import some_capture
from pgtrace.model.buckets import Buckets
from pgtrace.model.capture import Backend, Capture, Excluded, Interval, IntervalIo, Io, Lost, Query
from pgtrace.model.histogram import Histogram
from pgtrace.model.since import since

