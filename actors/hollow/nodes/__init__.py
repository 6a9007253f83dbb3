"""Hollow nodes: their objects and heartbeats, and the addresses of their pods."""
