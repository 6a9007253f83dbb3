"""Trials of the endpoint controllers."""
