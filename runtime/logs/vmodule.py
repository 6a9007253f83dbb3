"""Verbosity of single log sources, klog's --vmodule.

klog compares a pattern with the name of the Go file of a log call, without its directory and `.go`. Here a log call has
a source instead, and a pattern may match any of these names of it:

- the source itself, `replicaset-controller` or `informer:apps/v1/replicasets`, with `-` or `_` between words;
- the part of the source before or after the first colon;
- the name of a Go file of upstream with the same task: `replica_set` also selects `replicaset-controller`.

The first pattern that matches counts. As in klog it raises the verbosity of the source and never lowers it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase


def verbosity_of(source: str, patterns: Sequence[tuple[str, int]], names: Mapping[str, tuple[str, ...]]) -> int:
    """Return the verbosity of the first pattern that matches the source, or 0.

    patterns: in Go's syntax of filepath.Match, each with its verbosity.
    names: by source, or by a part of it, the names of upstream's files.
    """
    candidates = [name for own in _names(source) for name in (own, own.replace("-", "_"), *names.get(own, ()))]
    for pattern, verbosity in patterns:
        if any(fnmatchcase(name, pattern.replace("[^", "[!")) for name in candidates):
            return verbosity
    return 0


def _names(source: str) -> Iterator[str]:
    yield source
    kind, colon, name = source.partition(":")
    if colon:
        yield kind
        yield name
