"""Admission plugins, one module each, with upstream's names.

chain.py calls the plugins in upstream's order.
"""
