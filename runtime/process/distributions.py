"""Which packages are installed, as far as a start needs to know. importlib.metadata says the rest, and is heavy."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence

INSTALLED = ".dist-info"
OLD_WAYS = (".egg-info", ".egg", ".egg-link")  # of installing


def installed_version(name: str, path: Sequence[str] | None = None) -> str:
    """Of this distribution; "" if it is not installed. path: sys.path's form and default."""
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
    """False: no installed package has any of this group. path: sys.path's form and default."""
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
    """There is more than directories with installed distributions."""


def _infos(path: Sequence[str] | None) -> Iterator[tuple[str, str]]:
    """(place, name) of each distribution's directory, in the order in which Python looks."""
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
