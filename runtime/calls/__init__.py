"""Blocking and asynchronous calls to other systems, on threads and an event loop separate from the actors.

prepared_calls: a call, and the interface to make it.
pool: scheduling of calls, and detection of hung ones.
threads, loop: execution.
listeners: event sources outside of the process.
"""
