"""Admission: decisions about a request that concern several kinds, one file a plugin, as upstream names them.

chain.py calls the plugins in upstream's order.
"""
