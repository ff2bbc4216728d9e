"""Files that are read and written for somebody: whose they are, whole or not at all."""
