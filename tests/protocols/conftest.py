"""Settings of property tests: the same examples in every run, so that failures are caused by changes only."""

from hypothesis import settings

settings.register_profile("protocols", deadline=None, derandomize=True, max_examples=100)
settings.load_profile("protocols")
