"""Settings of the unit tests."""

from hypothesis import settings

# The test machines are shared: the same example takes 1 ms or 400. Nothing is gated on time.
settings.register_profile("unit", deadline=None)
settings.load_profile("unit")
