"""Seeded runs of a simulated cluster: what people wish, what goes wrong, what has to hold, and what it comes to."""
