"""Trials of the controllers of Services."""
