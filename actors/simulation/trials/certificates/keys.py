"""The keys that simulated managers sign with: files that are the same in every run, and what replaces them."""

from __future__ import annotations

from functools import cache

from kcm.runtime.simulation.keys import AuthorityFiles, PemKeyPair, authority_pair

BEGIN, END = 0.0, 4e9  # Unix seconds: whatever the virtual clock shows lies between


@cache
def first_pair() -> PemKeyPair:
    return authority_pair("simulated-authority", begin=BEGIN, end=END)


@cache
def second_pair() -> PemKeyPair:
    return authority_pair("simulated-authority-2", begin=BEGIN, end=END)


@cache
def authority_files() -> AuthorityFiles:
    """Return the files in their initial state; `reset` restores it."""
    return AuthorityFiles("authority", first_pair())


def reset() -> None:
    authority_files().write(first_pair())
