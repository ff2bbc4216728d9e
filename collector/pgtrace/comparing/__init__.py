"""Whether B differs from A, and in what: arithmetic and decisions over captures. No I/O."""
