"""Check of the project's language: counts of patterns that make text hard to read. Recorded counts may only fall.

texts: what is read. patterns: what is counted. ratchet: counts per package, and those that are recorded.

    python -m tests.language                           # counts per package and pattern, beside the recorded ones
    python -m tests.language --list PATTERN [PATH …]   # places, with their text
    python -m tests.language --record                  # record counts that have fallen

A count of 0 does not mean that a text is good. Do not swap a counted word for another of the same kind: rewrite the
sentence so that an engineer who does not know the code understands it.
"""
