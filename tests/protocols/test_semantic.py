"""Semantic equality ignores exactly the fields that a Go encoder omits."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm.protocols.objects import Object
from kcm.protocols.semantic import POD_TEMPLATE, semantically_equal, without_hash_label
from tests.support.objects import pod_template


def template(**spec: Any) -> Object:
    return pod_template(spec=spec)


def container(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", **fields}]}}


EQUAL: list[tuple[str, Any, Any]] = [  # values of pod templates, or of the type in OF_TYPE
    ("themselves", template(), template()),
    ("keys in another order", {"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ("None and nothing", None, {}),
    ("None and an empty list", None, []),
    ("no metadata and empty metadata", {"spec": {}}, {"metadata": {}, "spec": {}}),
    ("a null timestamp, as servers before 1.34 wrote it", {"metadata": {"creationTimestamp": None}}, {"metadata": {}}),
    ("only a null timestamp", {"metadata": {"creationTimestamp": None}}, {}),
    ("nil and empty labels", {"metadata": {"labels": None}}, {"metadata": {"labels": {}}}),
    ("absent and empty labels", {"metadata": {}}, {"metadata": {"labels": {}}}),
    ("absent and empty annotations", {}, {"metadata": {"annotations": {}}}),
    ("absent and empty lists", template(), template(tolerations=[], volumes=None)),
    ("absent and empty nodeSelector", template(), template(nodeSelector={})),
    ("absent and empty text", container(), container(workingDir="")),
    (
        "an environment variable without a value",
        container(env=[{"name": "A"}]),
        container(env=[{"name": "A", "value": ""}]),
    ),
    ("absent and false", template(), template(hostNetwork=False)),
    ("absent and 0", container(ports=[{"containerPort": 80}]), container(ports=[{"containerPort": 80, "hostPort": 0}])),
    ("absent and empty resources", container(), container(resources={})),
    ("absent and hollow resources", container(), container(resources={"limits": {}, "requests": None})),
    (
        "cpu 1 and 1000m",
        container(resources={"limits": {"cpu": "1"}}),
        container(resources={"limits": {"cpu": "1000m"}}),
    ),
    (
        "memory by value",
        container(resources={"requests": {"memory": "1Gi"}}),
        container(resources={"requests": {"memory": 1073741824}}),
    ),
    (
        "the size of an emptyDir",
        template(volumes=[{"emptyDir": {"sizeLimit": "1024Mi"}}]),
        template(volumes=[{"emptyDir": {"sizeLimit": "1Gi"}}]),
    ),
    (
        "no divisor and 0",
        {"resourceFieldRef": {"resource": "x"}},
        {"resourceFieldRef": {"resource": "x", "divisor": "0"}},
    ),
    ("an empty selector and an empty one", {"labelSelector": {}}, {"labelSelector": {"matchLabels": {}}}),
    ("an integer and the same number", {"replicas": 1}, {"replicas": 1.0}),
    ("status counts of 0 and none", {"replicas": 0, "readyReplicas": 0}, {}),
    (
        "a claim's storage by value",
        {"resources": {"requests": {"storage": "1024Mi"}}},
        {"resources": {"requests": {"storage": "1Gi"}}, "accessModes": []},
    ),
    (
        "fields of a later release that are empty",
        {"newText": "", "newList": [], "newStruct": {"deep": 0}},
        {"newStruct": {}},
    ),
]

DIFFERENT: list[tuple[str, Any, Any]] = [
    ("another value", template(), template(nodeName="n1")),
    ("another image", container(image="a"), container(image="b")),
    ("another label", {"metadata": {"labels": {"a": "b"}}}, {"metadata": {"labels": {"a": "c"}}}),
    ("one label more", {"metadata": {"labels": {"a": "b"}}}, {"metadata": {"labels": {"a": "b", "c": "d"}}}),
    (
        "a label with an empty value",
        {"metadata": {"labels": {"a": "b"}}},
        {"metadata": {"labels": {"a": "b", "c": ""}}},
    ),
    ("only a label with an empty value", {"metadata": {}}, {"metadata": {"labels": {"c": ""}}}),
    ("labels of which one has an empty value", {}, {"metadata": {"labels": {"c": ""}}}),
    ("an annotation with an empty value", {"metadata": {"annotations": {"c": ""}}}, {}),
    ("a limit of 0 and none", container(resources={"limits": {"cpu": "0"}}), container(resources={"limits": {}})),
    ("a limit of 0 and no resources", container(resources={"limits": {"cpu": "0"}}), container()),
    (
        "other quantities",
        container(resources={"limits": {"cpu": "1"}}),
        container(resources={"limits": {"cpu": "1001m"}}),
    ),
    (
        "what is no quantity",
        container(resources={"limits": {"cpu": "x"}}),
        container(resources={"limits": {"cpu": "y"}}),
    ),
    ("an emptyDir and nothing", template(volumes=[{"name": "v", "emptyDir": {}}]), template(volumes=[{"name": "v"}])),
    ("all namespaces and this one", {"namespaceSelector": {}}, {}),
    ("a selector for all and none", {"labelSelector": {}}, {}),
    ("a security context and none", template(securityContext={}), template()),
    ("root and the image's user", {"securityContext": {"runAsUser": 0}}, {"securityContext": {}}),
    ("no grace and the default", template(terminationGracePeriodSeconds=0), template()),
    ("no token and the default", template(automountServiceAccountToken=False), template()),
    ("not suspended and not said", {"suspend": False}, {}),
    ("no class and the default class", {"storageClassName": ""}, {}),
    ("never collided and 0", {"collisionCount": 0}, {}),
    ("no replicas wanted and the default", {"replicas": 0}, {}),
    ("an emptyDir of size 0 and an unlimited one", {"emptyDir": {"sizeLimit": "0"}}, {"emptyDir": {}}),
    ("a field of a later release", {"newText": "a"}, {}),
    (
        "lists in another order",
        template(tolerations=[{"key": "a"}, {"key": "b"}]),
        template(tolerations=[{"key": "b"}, {"key": "a"}]),
    ),
    ("a list with one more", container(args=["a"]), container(args=["a", "a"])),
    ("a list with an empty element", container(args=[]), container(args=[""])),
    ("a number and its text", {"targetPort": 80}, {"targetPort": "80"}),
    ("true and 1", {"hostNetwork": True}, {"hostNetwork": 1}),
    ("a map and a list", {"x": {"a": 1}}, {"x": [1]}),
    ("a map and text", {"x": {"a": 1}}, {"x": "a"}),
    ("something and None", {"a": 1}, None),
]


OF_TYPE = {
    "no divisor and 0": "core.v1.EnvVarSource",
    "an empty selector and an empty one": "core.v1.PodAffinityTerm",
    "an integer and the same number": "apps.v1.ReplicaSetStatus",
    "status counts of 0 and none": "apps.v1.ReplicaSetStatus",
    "all namespaces and this one": "core.v1.PodAffinityTerm",
    "a selector for all and none": "core.v1.PodAffinityTerm",
    "root and the image's user": "core.v1.Container",
    "not suspended and not said": "batch.v1.JobSpec",
    "no class and the default class": "core.v1.PersistentVolumeClaimSpec",
    "never collided and 0": "apps.v1.DeploymentStatus",
    "true and 1": "core.v1.PodSpec",
    "a claim's storage by value": "core.v1.PersistentVolumeClaimSpec",
    "no replicas wanted and the default": "apps.v1.DeploymentSpec",
    "an emptyDir of size 0 and an unlimited one": "core.v1.Volume",
}


@pytest.mark.parametrize(("case", "a", "b"), EQUAL, ids=[case[0] for case in EQUAL])
def test_equal_values_are_semantically_equal(case: str, a: Any, b: Any) -> None:
    type_ = OF_TYPE.get(case, POD_TEMPLATE)
    assert semantically_equal(a, b, type_)
    assert semantically_equal(b, a, type_)


@pytest.mark.parametrize(("case", "a", "b"), DIFFERENT, ids=[case[0] for case in DIFFERENT])
def test_different_values_are_not_semantically_equal(case: str, a: Any, b: Any) -> None:
    type_ = OF_TYPE.get(case, POD_TEMPLATE)
    assert not semantically_equal(a, b, type_)
    assert not semantically_equal(b, a, type_)


def test_every_type_that_a_case_names_has_a_case() -> None:
    assert set(OF_TYPE) <= {case[0] for case in (*EQUAL, *DIFFERENT)}


def test_a_type_without_facts_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"no type core\.v1\.Widget"):
        semantically_equal({}, {}, "core.v1.Widget")


def labelled(**labels: str) -> dict[str, Any]:
    return {"metadata": {"labels": labels}, "spec": {"containers": []}}


HASH = "pod-template-hash"


@pytest.mark.parametrize(
    ("template", "other", "equal"),
    [
        (labelled(app="web", **{HASH: "1"}), labelled(app="web"), True),
        (labelled(app="web", **{HASH: "1"}), labelled(app="web", **{HASH: "2"}), True),
        (labelled(**{HASH: "1"}), {"spec": {"containers": []}}, True),
        (labelled(**{HASH: "1"}), {"metadata": {"labels": None}, "spec": {}}, True),
        (labelled(app="web", **{HASH: "1"}), labelled(app="db", **{HASH: "1"}), False),
        (labelled(app="web", **{HASH: "1"}), labelled(), False),
        (labelled(app="web"), {**labelled(app="web"), "spec": {"nodeName": "n1"}}, False),
    ],
)
def test_templates_are_compared_without_their_hash(template: Any, other: Any, equal: bool) -> None:
    before = deepcopy((template, other))
    bare, other_bare = without_hash_label(template), without_hash_label(other)
    assert semantically_equal(bare, other_bare, POD_TEMPLATE) is equal
    assert semantically_equal(other_bare, bare, POD_TEMPLATE) is equal
    assert (template, other) == before


def test_the_hash_label_is_removed_and_nothing_else() -> None:
    template = labelled(app="web", **{HASH: "1"})
    assert without_hash_label(template) == labelled(app="web")
    assert template == labelled(app="web", **{HASH: "1"})
    assert without_hash_label(labelled(app="web")) == labelled(app="web")
    assert without_hash_label({"metadata": None}) == {"metadata": None}
    assert without_hash_label({}) == {}


FIELDS = st.sampled_from(["metadata", "labels", "limits", "emptyDir", "args", "runAsUser", "replicas", "name"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2) | st.sampled_from(["", "a", "1", "1000m"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(FIELDS, inner, max_size=3),
    max_leaves=10,
)
OBJECTS = st.dictionaries(FIELDS, VALUES, max_size=4)


@given(OBJECTS, OBJECTS)
def test_it_is_symmetric_and_everything_equals_its_copy(a: dict[str, Any], b: dict[str, Any]) -> None:
    assert semantically_equal(a, deepcopy(a), POD_TEMPLATE)
    assert semantically_equal(a, b, POD_TEMPLATE) is semantically_equal(b, a, POD_TEMPLATE)


@given(OBJECTS, st.sampled_from(["args", "env", "name", "emptyDir"]))
def test_an_absent_field_equals_null_and_an_empty_list(obj: dict[str, Any], field: str) -> None:
    without = {key: value for key, value in obj.items() if key != field}
    assert semantically_equal(without, {**without, field: None}, POD_TEMPLATE)
    assert semantically_equal(without, {**without, field: []}, POD_TEMPLATE)
