"""Seeded runs of a simulated cluster, composed of trials: settings, runs, and what they are checked for."""
