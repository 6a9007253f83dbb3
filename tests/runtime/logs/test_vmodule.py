"""Names of a log source that a pattern of --vmodule matches."""

from __future__ import annotations

import pytest

from kcm.runtime.logs.vmodule import verbosity_of

NAMES = {"replicaset-controller": ("replica_set",), "informer": ("reflector",)}


@pytest.mark.parametrize(
    ("source", "pattern"),
    [
        ("replicaset-controller", "replicaset-controller"),
        ("replicaset-controller", "replicaset_controller"),
        ("replicaset-controller", "replica_set"),
        ("replicaset-controller", "repl*"),
        ("replicaset-controller", "[^a]eplicaset?controller"),
        ("controller:replicaset-controller", "replicaset-controller"),
        ("controller:replicaset-controller", "replica_set"),
        ("controller:replicaset-controller", "controller"),
        ("informer:apps/v1/replicasets", "informer:apps/v1/replicasets"),
        ("informer:apps/v1/replicasets", "informer"),
        ("informer:apps/v1/replicasets", "*/replicasets"),
        ("informer:apps/v1/replicasets", "reflector"),
    ],
)
def test_pattern_matches_source_parts_of_it_and_upstreams_files(source: str, pattern: str) -> None:
    assert verbosity_of(source, [(pattern, 5)], NAMES) == 5


@pytest.mark.parametrize("pattern", ["replicaset", "*_set_utils", "reflector", "REPL*"])
def test_other_patterns_do_not_match(pattern: str) -> None:
    assert verbosity_of("replicaset-controller", [(pattern, 5)], NAMES) == 0


def test_first_matching_pattern_counts() -> None:
    assert verbosity_of("replicaset-controller", [("job", 9), ("rep*", 4), ("*", 6)], NAMES) == 4
