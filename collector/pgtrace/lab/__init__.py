"""The laboratory: published experiments, each repeated by one command."""

EXPERIMENTS = {
    "pages": "sequential against random page reads, per storage",
    "readahead": "read-ahead and the true device read",
    "buffers": "what shared_buffers does to a scan",
    "sync": "fsync and checkpoints of two servers",
}
"""By name: one line of help. A new one is a folder of that name, and a line here."""
