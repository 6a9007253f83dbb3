"""Volumes, the claims for them, and who keeps them."""
