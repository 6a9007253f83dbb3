"""Sources of the identifiers of new objects: uids, and the suffixes of generated names."""

from __future__ import annotations

import os
import random
from collections.abc import Callable

from kcm.protocols.late_methods import dataclass

AT_ONCE = 256  # uids
SUFFIX_CHARACTERS = "bcdfghjklmnpqrstvwxz2456789"


def random_suffix() -> str:
    """Draw five characters without vowels, as upstream's names.SimpleNameGenerator."""
    return "".join(random.choices(SUFFIX_CHARACTERS, k=5))


class RandomUids:
    """Source of UUIDs of version 4 in Kubernetes' spelling.

    Random bytes are fetched for many UUIDs at once, as the system call is the most expensive part.
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


@dataclass(frozen=True, slots=True)
class Identifiers:
    """Sources of identifiers."""

    uid: Callable[[], str]  # metadata.uid
    suffix: Callable[[], str] = random_suffix  # the five characters of a generateName
