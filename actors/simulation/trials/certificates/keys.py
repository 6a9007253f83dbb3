"""Signing keys of simulated managers: files with the same content in every run, and the pair that replaces them."""

from __future__ import annotations

from functools import cache

from kcm.runtime.simulation.keys import AuthorityFiles, PemKeyPair, authority_pair

BEGIN, END = 0.0, 4e9  # Unix seconds; the virtual clock stays within them


@cache
def first_pair() -> PemKeyPair:
    return authority_pair("simulated-authority", begin=BEGIN, end=END)


@cache
def second_pair() -> PemKeyPair:
    return authority_pair("simulated-authority-2", begin=BEGIN, end=END)


@cache
def authority_files() -> AuthorityFiles:
    """Return the key files of the process, at first with the first pair; `reset` writes that again."""
    return AuthorityFiles("authority", first_pair())


def reset() -> None:
    authority_files().write(first_pair())
