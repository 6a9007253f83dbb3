"""Mapping from kinds to served resources."""

from __future__ import annotations

import pytest

from kcm.actors.controllers.shared.served_kinds import DISCOVERY_RETRY, ServedKinds
from kcm.actors.reconciliation import Retry
from kcm.protocols.messages.discovery import ServedResource


def served(group: str, version: str, plural: str, kind: str, **more: object) -> ServedResource:
    return ServedResource(group=group, version=version, plural=plural, kind=kind, namespaced=True, **more)  # type: ignore[arg-type]


V1 = served("example.com", "v1", "flakes", "Flake")
V2 = served("example.com", "v2", "flakes", "Flake")
ELSEWHERE = served("other.com", "v1", "flakes", "Flake")
CORE = served("", "v1", "pods", "Pod")


def test_lookup_is_retried_before_discovery_is_complete() -> None:
    kinds = ServedKinds()
    for ask in (lambda: kinds.find("v1", "Pod"), lambda: kinds.resource("v1/pods"), kinds.served):
        with pytest.raises(Retry) as raised:
            ask()
        assert raised.value.after == DISCOVERY_RETRY


@pytest.mark.parametrize(
    ("api_version", "kind", "expected"),
    [
        ("example.com/v1", "Flake", V1),
        ("example.com/v2", "Flake", V2),
        ("other.com/v1", "Flake", ELSEWHERE),
        ("v1", "Pod", CORE),
        ("example.com/v3", "Flake", None),
        ("v1", "Flake", None),
        ("example.com/v1", "flake", None),
        ("", "Pod", None),
    ],
)
def test_kind_is_found_in_the_version_of_a_reference(
    api_version: str, kind: str, expected: ServedResource | None
) -> None:
    kinds = ServedKinds()
    kinds.update_served([V1, V2, ELSEWHERE, CORE])
    assert kinds.find(api_version, kind) == expected
    if expected is not None:
        assert kinds.resource(expected.resource.id) == expected.resource


def test_first_served_resource_of_a_kind_is_found() -> None:
    kinds = ServedKinds()
    twin = served("example.com", "v1", "snowflakes", "Flake", scale="autoscaling/v1")
    kinds.update_served([V1, twin])
    assert kinds.served() == (V1, twin)
    assert kinds.find("example.com/v1", "Flake") == V1
    assert kinds.resource(twin.resource.id) == twin.resource


def test_kind_that_is_not_served_anymore_is_not_found() -> None:
    kinds = ServedKinds()
    kinds.update_served([V1, CORE])
    kinds.update_served([CORE])
    assert (kinds.find("example.com/v1", "Flake"), kinds.resource(V1.resource.id)) == (None, None)
    kinds.update_served([])
    assert kinds.find("v1", "Pod") is None
