"""How what waits for the world outside is done: on threads and an event loop, apart from the actors.

Read calling.py first. pool: when each begins, and which ones hang. threads, loop: who carries them out.
"""
