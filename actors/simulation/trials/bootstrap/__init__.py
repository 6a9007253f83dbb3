"""Trials of the controllers of bootstrap tokens."""
