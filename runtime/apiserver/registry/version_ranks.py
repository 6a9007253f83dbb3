"""Order of the versions of a group, by preference of clients.

Source: apimachinery pkg/version/helpers.go, CompareKubeAwareVersionStrings (v1.36).
"""

from __future__ import annotations

import re

_VERSION = re.compile(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?")


def version_rank(version: str) -> tuple[int, int, int, str]:
    """Return the sort key of a version.

    The order is by preference: v2, v1, v1beta2, v1beta1, v1alpha1, then other names alphabetically.
    """
    found = _VERSION.fullmatch(version)
    if found is None:
        return 3, 0, 0, version
    stability = {None: 0, "beta": 1, "alpha": 2}[found[2]]
    return stability, -int(found[1]), -int(found[3] or 0), ""
