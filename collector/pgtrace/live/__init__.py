"""What `pgtrace top` shows: a server, second by second."""
