"""One tracing session: whom, how long, charged to whom, and the capture that comes of it."""
