"""Where objects get their uid from."""

from __future__ import annotations

import os

AT_ONCE = 256  # uids


class RandomUids:
    """Each call returns a new UUID of version 4, spelt as Kubernetes does.

    Random bytes are fetched for many at once: to ask the kernel for 16 of them costs more than all the rest.
    """

    def __init__(self) -> None:
        self._drawn: list[str] = []  # 32 hexadecimal digits each

    def __call__(self) -> str:
        if not self._drawn:
            digits = os.urandom(16 * AT_ONCE).hex()
            self._drawn = [digits[start : start + 32] for start in range(0, len(digits), 32)]
        one = self._drawn.pop()
        # 4 is the version; the two highest bits of the next group are 10.
        return f"{one[:8]}-{one[8:12]}-4{one[13:16]}-{'89ab'[int(one[16], 16) & 3]}{one[17:20]}-{one[20:]}"
