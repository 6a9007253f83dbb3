"""Trials of the certificate controllers, with deterministic key files."""
