"""Calls that wait for the world outside, on threads and an event loop apart from the actors.

prepared_calls: a call, and the interface to make it. pool: when calls begin, and which ones hang. threads, loop: make
them. listeners: sources of events outside.
"""
