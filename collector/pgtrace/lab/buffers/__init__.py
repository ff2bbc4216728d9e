"""What shared_buffers does to a scan, and at which of three levels blocks are found."""
