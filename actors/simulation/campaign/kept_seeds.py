"""File of failed seeds, which the next campaign runs first. A line contains setting, seed and violated invariants.

    workloads 17 converges once faults have stopped
    test_website_faults:SETTING 3 one Deployment each; the same end as without faults

Lines may be added by hand; text after the seed is for people. Several settings may share a file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

HEAD = "# Failed seeds, run first by python -m kcm.simulate --failing FILE: setting, seed, violated invariants.\n"


class KeptSeedsError(ValueError):
    """The file of failed seeds cannot be read or written. The text is one line, for the command line."""


class KeptSeeds:
    """The failed seeds of one setting in a file. All methods raise KeptSeedsError if the file is unusable."""

    def __init__(self, file: Path, *, setting: str) -> None:
        self._file, self._setting = file, setting
        self._read()

    def seeds(self) -> tuple[int, ...]:
        """Return the failed seeds of the setting, in the order of the file."""
        return tuple(seed for setting, seed in self._read() if setting == self._setting)

    def record(self, seed: int, violated: Iterable[str]) -> None:
        """Add a seed that violates invariants, or remove one that violates none.

        The file is read again first, because other processes may have added seeds.
        """
        known, this = self._read(), (self._setting, seed)
        names = list(dict.fromkeys(violated))
        if names and this not in known:
            known[this] = "; ".join(names)
        elif not names and this in known:
            del known[this]
        else:
            return
        self._write(known)

    def _read(self) -> dict[tuple[str, int], str]:
        try:
            text = self._file.read_text(encoding="utf-8")
        except FileNotFoundError:
            return {}
        except (OSError, UnicodeDecodeError) as err:
            raise KeptSeedsError(f"{self._file} cannot be read: {err}") from err
        found = {}
        for number, line in enumerate(text.splitlines(), start=1):
            if line.strip() and not line.startswith("#"):
                setting, _, rest = line.partition(" ")
                seed, _, violated = rest.partition(" ")
                try:
                    found[setting, int(seed)] = violated
                except ValueError as err:
                    raise KeptSeedsError(
                        f"{self._file}, line {number}: expected a setting and a seed: {line!r:.100}"
                    ) from err
        return found

    def _write(self, known: dict[tuple[str, int], str]) -> None:
        lines = [f"{setting} {seed} {violated}".rstrip() for (setting, seed), violated in known.items()]
        beside = self._file.with_name(f".{self._file.name}.{os.getpid()}")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            beside.write_text("".join([HEAD, *(f"{line}\n" for line in lines)]), encoding="utf-8")
            os.replace(beside, self._file)
        except OSError as err:
            raise KeptSeedsError(f"{self._file} cannot be written: {err}") from err
