"""Both engines measure the same: scripts/test runs this with BTF and, as PGTRACE_TEST_ENGINE=bcc
says, without.

These tests hold what is measured against EXPLAIN and against what a client did; those of reads and
their sources are in test_ways.py. Left out is what stands on real time, or has a thousand clients.
"""

import pytest
import test_charging
import test_queries

pytestmark = pytest.mark.kernel("6.1")

_IN_REAL_TIME = ("latency", "latencies", "silent", "timeout", "canceled", "pgbench")
globals().update(
    {
        name: each
        for name, each in vars(test_queries).items()
        if name.startswith("test_") and not any(word in name for word in _IN_REAL_TIME)
    }
)
shared, watched, session = test_queries.shared, test_queries.watched, test_queries.session
charged, backend = test_charging.charged, test_charging.backend
test_parallel_workers_read_for_their_leaders_query = (
    test_charging.test_parallel_workers_read_for_their_leaders_query
)
