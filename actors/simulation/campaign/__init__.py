"""Seeded runs of a simulated cluster: settings, which are composed of trials, runs, their checks and reports."""
