"""Trials of the controllers of nodes."""
