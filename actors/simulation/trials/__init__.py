"""Trials of the controllers: user actions, the expected end state, and invariants.

One file per controller, with its TRIAL; catalogue.py lists them. Campaigns (actors/simulation/campaign/) combine them.
"""
