"""Shared code of the storage controllers."""
