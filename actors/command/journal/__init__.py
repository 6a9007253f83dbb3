"""Journals: `run-kcm journal show` and `run-kcm journal replay`.

command: the command line of both.
replay: passes the recorded messages to a controller, and compares its commands.
stage: the environment of the replayed controller.
"""
