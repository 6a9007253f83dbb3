"""Which resources there are, as discovery documents say it, and how they are asked for.

documents: what discovery documents say. survey: one round of requests, and what is known after it.
"""
