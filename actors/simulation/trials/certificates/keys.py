"""Signing keys of simulated managers: key files with the same content in every run, and two pairs of keys for them."""

from __future__ import annotations

from functools import cache

from kcm.runtime.simulation.keys import AuthorityFiles, PemKeyPair, authority_pair

BEGIN, END = 0.0, 4e9  # validity of the certificates, in Unix seconds; longer than any run


@cache
def first_pair() -> PemKeyPair:
    return authority_pair("simulated-authority", begin=BEGIN, end=END)


@cache
def second_pair() -> PemKeyPair:
    return authority_pair("simulated-authority-2", begin=BEGIN, end=END)


@cache
def authority_files() -> AuthorityFiles:
    """Return the key files of this process. They contain the first pair at first, and again after `reset`."""
    return AuthorityFiles("authority", first_pair())


def reset() -> None:
    authority_files().write(first_pair())
