"""Descriptions of malformed fields, by the types of upstream's API."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.protocols.resources import CUSTOM_RESOURCE_DEFINITIONS, DEPLOYMENTS, PERSISTENT_VOLUMES, PODS, Resource
from kcm.runtime.schema.field_errors import field_error

META = {"name": "web", "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z"}
THINGS = Resource(group="example.com", version="v1", plural="things", kind="Thing")


def pod(**spec: Any) -> Any:
    return {"metadata": META, "spec": {"containers": [{"name": "c"}], **spec}, "status": {"phase": "Running"}}


@pytest.mark.parametrize(
    "obj",
    [
        {"metadata": META},
        pod(),
        pod(
            nodeName=None,
            tolerations=[{"tolerationSeconds": 300}],
            overhead={"cpu": "1m"},
            nodeSelector={"a": "b"},
            volumes=[{"name": "v", "configMap": {"name": "x", "defaultMode": 420}}],
        ),
    ],
)
def test_well_formed_object_has_no_error(obj: Any) -> None:
    assert field_error(PODS, obj) == ""


@pytest.mark.parametrize(
    ("resource", "obj", "error"),
    [
        (PODS, 3, "the object is a map, got 3"),
        (PODS, {"metadata": ["x"]}, "metadata is a map, got ['x']"),
        (PODS, {"metadata": {"labels": {"a": 1}}}, "metadata.labels['a'] is a string, got 1"),
        (
            PODS,
            {"metadata": {"creationTimestamp": "today"}},
            "metadata.creationTimestamp is an RFC 3339 time, got 'today'",
        ),
        (PODS, {"metadata": META, "spec": "x"}, "spec is a map, got 'x'"),
        (PODS, pod(volumes=3), "spec.volumes is a list, got 3"),
        (PODS, pod(volumes=[{"name": "v"}, None]), "spec.volumes[1] is a map, got None"),
        (PODS, pod(hostNetwork="yes"), "spec.hostNetwork is true or false, got 'yes'"),
        (PODS, pod(activeDeadlineSeconds="5"), "spec.activeDeadlineSeconds is a number, got '5'"),
        (PODS, pod(overhead={"cpu": ["x"]}), "spec.overhead['cpu'] is a quantity, got ['x']"),
        (PODS, pod(overhead="1"), "spec.overhead is a map, got '1'"),
        (
            PODS,
            pod(containers=[{"name": "c", "livenessProbe": {"httpGet": {"port": [80]}}}]),
            "spec.containers[0].livenessProbe.httpGet.port is a number or a string, got [80]",
        ),
        (PODS, pod(containers=[{"image": "i"}]), "spec.containers[0].name is missing"),
        (PODS, pod(containers=[{"image": 7}]), "spec.containers[0].image is a string, got 7"),  # rather than the name
        (
            DEPLOYMENTS,
            {"spec": {"template": {"spec": {"containers": "x"}}}},
            "spec.template.spec.containers is a list, got 'x'",
        ),
        (
            PERSISTENT_VOLUMES,
            {"spec": {"capacity": {"storage": "much"}}},
            "spec.capacity['storage'] is a quantity, got 'much'",
        ),
        (
            CUSTOM_RESOURCE_DEFINITIONS,
            {"spec": {"versions": [{"schema": {"openAPIV3Schema": {"properties": {"a": {"properties": 1}}}}}]}},
            "spec.versions[0].schema.openAPIV3Schema.properties['a'].properties is a map, got 1",
        ),
        (THINGS, {"metadata": {"finalizers": "x"}, "spec": 1}, "metadata.finalizers is a list, got 'x'"),
    ],
)
def test_first_malformed_field_is_described(resource: Resource, obj: Any, error: str) -> None:
    assert field_error(resource, obj) == error


def test_only_the_metadata_of_partial_and_custom_objects_is_checked() -> None:
    assert field_error(THINGS, {"metadata": META, "spec": 1}) == ""
    assert field_error(PODS, {"metadata": META, "spec": 1}, metadata_only=True) == ""
