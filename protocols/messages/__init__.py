"""Messages between actors, one file per conversation.

Each is immutable; its docstring names the sender and the receiver.
"""
