"""Trials of the controllers of certificates, and what stands in for keys on a disk."""
