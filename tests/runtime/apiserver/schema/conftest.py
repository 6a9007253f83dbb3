"""Property tests that give the same examples in every run: a failure is the change's, never the day's."""

from hypothesis import settings

settings.register_profile("schema", deadline=None, derandomize=True, max_examples=100)
settings.load_profile("schema")
