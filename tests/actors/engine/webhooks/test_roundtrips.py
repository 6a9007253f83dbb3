"""Check of conversions: roundtrips that lose a field are found."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.engine.webhooks.roundtrips import check_roundtrips
from kcm.actors.reconciliation import ControllerSpec
from kcm.actors.reconciliation.webhooks import convert
from kcm.protocols.resources import Resource

V1, V2, V3 = (
    Resource(group="example.com", version=version, plural="gauges", kind="Gauge") for version in ("v1", "v2", "v3")
)


def up(obj: Any) -> Any:
    return {**obj, "spec": {"degrees": obj["spec"]["value"]}}


def down(obj: Any) -> Any:
    return {**obj, "spec": {"value": obj["spec"]["degrees"]}}


def same(obj: Any) -> Any:
    return obj


SPEC = ControllerSpec(
    name="gauges",
    build=same,
    conversion=(convert(V1, V2, up), convert(V2, V1, down), convert(V2, V3, same), convert(V3, V2, same)),
)


def gauge(version: str, **spec: Any) -> Any:
    return {"apiVersion": f"example.com/{version}", "kind": "Gauge", "metadata": {"name": "g"}, "spec": spec}


def test_each_pair_of_versions_is_tried() -> None:
    assert check_roundtrips(SPEC, gauge("v1", value=1), gauge("v2", degrees=2), gauge("v3", degrees=3)) == 6


def test_a_lost_field_is_named() -> None:
    with pytest.raises(
        AssertionError, match=r"from v1 to v2 and back: \[\{\"op\":\"remove\",\"path\":\"/spec/unit\"\}\]"
    ):
        check_roundtrips(SPEC, gauge("v1", value=1, unit="K"))


@pytest.mark.parametrize("obj", [gauge("v9"), {**gauge("v1"), "kind": "Other"}, {"kind": "Gauge"}])
def test_an_object_of_another_kind_or_version_is_refused(obj: Any) -> None:
    with pytest.raises(ValueError, match="gauges has no conversion of"):
        check_roundtrips(SPEC, obj)
