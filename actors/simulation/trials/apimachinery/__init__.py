"""Trials of controllers of whatever objects there are."""
