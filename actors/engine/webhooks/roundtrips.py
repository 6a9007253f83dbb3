"""Check of conversions: an object that is converted to another version and back must be the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from kcm.actors.engine.webhooks.configurations import conversions_of
from kcm.actors.engine.webhooks.patches import json_patch
from kcm.actors.engine.webhooks.responses import converted
from kcm.actors.reconciliation.specs import ControllerSpec
from kcm.actors.reconciliation.webhooks import conversion_paths
from kcm.protocols.arguments import check_type
from kcm.protocols.models import as_object
from kcm.protocols.objects import name_of


def check_roundtrips(spec: ControllerSpec, *objects: Mapping[str, Any]) -> int:
    """Convert each object to each other version of its resource and back, and return the number of roundtrips.

    Users read and write an object in any version, so a field that a version lacks must be kept, for example in an
    annotation.

    objects: with kind and apiVersion.

    Raises AssertionError that names the versions and the fields that a roundtrip has changed, ValueError for an object
    that the spec does not convert, and what the functions raise.
    """
    check_type("check_roundtrips", spec, ControllerSpec, "a ControllerSpec with conversions")
    resources = {
        conversions[0].source: conversion_paths(conversions) for conversions in conversions_of((spec,)).values()
    }
    count = 0
    for given in objects:
        obj = as_object(given)
        api_version, kind = str(obj.get("apiVersion")), obj.get("kind")
        group, _, version = api_version.rpartition("/")
        found = [
            (resource, paths)
            for resource, paths in resources.items()
            if (resource.group, resource.kind) == (group, kind) and any(version == source for source, _ in paths)
        ]
        if not found:
            raise ValueError(f"{spec.name} has no conversion of {kind!r} from {api_version!r}")
        ((resource, paths),) = found
        for other in sorted(target for source, target in paths if source == version):
            there = converted(paths, resource, orjson.loads(orjson.dumps(obj)), f"{group}/{other}")
            back = converted(paths, resource, there, api_version)
            changes = json_patch(obj, back)
            if changes:
                raise AssertionError(
                    f"{kind} {name_of(obj)} is not the same after a conversion from {version} to {other} and back: "
                    f"{orjson.dumps(changes).decode()}"
                )
            count += 1
    return count
