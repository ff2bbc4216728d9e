"""What the device's read-ahead does to a scan, and to random reads."""
