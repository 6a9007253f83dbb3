"""What is said between actors: messages, their encoding, API resources and the vocabulary over API objects.

Nothing here does I/O, starts a thread or reads a clock.
"""
