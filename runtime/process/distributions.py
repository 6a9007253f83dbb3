"""Facts about installed distributions that are needed at start. Importing importlib.metadata would take longer."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence

INSTALLED = ".dist-info"
OLD_WAYS = (".egg-info", ".egg", ".egg-link")  # older forms of installation


def installed_version(name: str, path: Sequence[str] | None = None) -> str:
    """Return the version of a distribution, or "" if it is not installed. path: default sys.path."""
    try:
        for _, info in _infos(path):
            found, _, version = info.removesuffix(INSTALLED).partition("-")
            if found == name:
                return version
        return ""
    except _UnclearError:
        import importlib.metadata

        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            return ""


def may_have_entry_points(group: str, path: Sequence[str] | None = None) -> bool:
    """Return False if no installed distribution has entry points of this group. path: default sys.path."""
    head = f"[{group}]".encode()
    try:
        for place, info in _infos(path):
            try:
                with open(os.path.join(place, info, "entry_points.txt"), "rb") as file:
                    if head in file.read():
                        return True
            except FileNotFoundError:
                continue
    except (_UnclearError, OSError):
        return True
    return False


class _UnclearError(Exception):
    """The path has archives or older forms of installation."""


def _infos(path: Sequence[str] | None) -> Iterator[tuple[str, str]]:
    """Yield (place, name) of each distribution's directory, in the order of the path."""
    for place in sys.path if path is None else path:
        try:
            names = os.listdir(place or ".")
        except FileNotFoundError:
            continue
        except OSError as err:  # an archive
            raise _UnclearError from err
        for name in sorted(names):
            if name.endswith(OLD_WAYS):
                raise _UnclearError
            if name.endswith(INSTALLED):
                yield place or ".", name
