"""Trials of the controllers of volumes."""
