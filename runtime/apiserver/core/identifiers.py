"""Sources of the identifiers of new objects: uids, and the suffixes of generated names."""

from __future__ import annotations

import os
import random
from collections.abc import Callable

from msgspec import Struct

AT_ONCE = 256  # number of UUIDs for which random bytes are read at once
SUFFIX_CHARACTERS = "bcdfghjklmnpqrstvwxz2456789"


def random_suffix() -> str:
    """Return five random consonants and digits, as upstream's names.SimpleNameGenerator."""
    return "".join(random.choices(SUFFIX_CHARACTERS, k=5))


class RandomUids:
    """Generator of random UUIDs (version 4) in lower case, as in metadata.uid. A call returns the next UUID.

    Random bytes are read for many UUIDs at once, because the system call takes most of the time.
    """

    def __init__(self) -> None:
        self._drawn: list[str] = []  # 32 hexadecimal digits each

    def __call__(self) -> str:
        if not self._drawn:
            digits = os.urandom(16 * AT_ONCE).hex()
            self._drawn = [digits[start : start + 32] for start in range(0, len(digits), 32)]
        hexadecimal = self._drawn.pop()
        # 4 is the version; the two highest bits of the next group are 10.
        variant = "89ab"[int(hexadecimal[16], 16) & 3]
        return (
            f"{hexadecimal[:8]}-{hexadecimal[8:12]}-4{hexadecimal[13:16]}"
            f"-{variant}{hexadecimal[17:20]}-{hexadecimal[20:]}"
        )


class Identifiers(Struct, frozen=True):
    """Functions that generate the identifiers of new objects."""

    uid: Callable[[], str]  # metadata.uid
    suffix: Callable[[], str] = random_suffix  # the five characters of a generateName
