"""Where time went, made up for tests."""

from hypothesis import strategies as st

from captures import some_histogram
from pgtrace.model.capture import Probes, Time

MS = 10**6
SCOPES = st.sampled_from(["query", "outside"])
EVENTS = st.sampled_from(
    [("IO", "DataFileRead"), ("IO", "WALSync"), ("Lock", "relation"), ("Client", "ClientRead"),
     ("Activity", "WalWriterMain"), ("Kernel", "other sleep"), ("0x0F", "event 7")]
)  # fmt: skip


def spent(kind: str, ns: int, event: tuple[str, str] | None = None, **more: object) -> Time:
    latency = some_histogram([(ns, 1)]).to_data()
    type_, name = event or (None, None)
    fields = {"kind": kind, "scope": "query", "wait_event_type": type_, "wait_event": name}
    return Time(latency=latency, **(fields | more))  # type: ignore[arg-type]


def probes(*, times: bool = True) -> Probes:
    return Probes("libbpf", "tracepoint", "usdt", times=times)


times = st.one_of(
    st.builds(
        spent, st.sampled_from(["cpu", "run_queue", "run_queue_in_read", "stolen"]),
        st.integers(1, 10**10),
        scope=SCOPES, performed_by=st.sampled_from(["backend", "parallel worker"]),
    ),
    st.builds(spent, st.just("sleep"), st.integers(1, 10**10), EVENTS, scope=SCOPES),
)  # fmt: skip
