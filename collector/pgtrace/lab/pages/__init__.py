"""What a sequential and a random page read cost, on each storage."""
