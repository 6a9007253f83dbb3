"""Simulation trials of the controllers: user actions, the expected end state, and invariants.

Each file declares the TRIAL of one controller, and catalogue.py lists all of them. Campaigns
(actors/simulation/campaign/) combine trials into runs.
"""
