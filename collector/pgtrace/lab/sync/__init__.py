"""What making data last costs: two servers, which do the same work."""
