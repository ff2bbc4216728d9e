"""Arithmetic over what was measured: how certain a mean, a ratio, a cost of pages is. No I/O."""
