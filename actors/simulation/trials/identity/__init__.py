"""Trials of the controllers of service accounts and of what clients trust the API server by."""
