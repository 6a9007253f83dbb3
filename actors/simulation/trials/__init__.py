"""How each controller is tried: what its users do, what it has to come to, and what must hold at every moment.

One file a controller, with its TRIAL; catalogue.py lists them. Campaigns (actors/simulation/campaign/) compose them.
"""
