"""Property tests with the same examples in every run, so that a failure is caused by a change of the code."""

from hypothesis import settings

settings.register_profile("schema", deadline=None, derandomize=True, max_examples=100)
settings.load_profile("schema")
