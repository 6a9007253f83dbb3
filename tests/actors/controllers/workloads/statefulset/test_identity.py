"""Names, ordinals and fields of pods."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.controllers.workloads.statefulset.identity import (
    has_its_volumes,
    ordinal_of,
    parent_and_ordinal,
    pod_of,
    with_its_identity,
)
from tests.actors.controllers.workloads.statefulset.scenes import a_set, member, read


@pytest.mark.parametrize(
    ("name", "parent", "ordinal"),
    [
        ("web-0", "web", 0),
        ("a-b-3", "a-b", 3),
        ("web-2147483647", "web", 2147483647),
        ("web-2147483648", "", -1),
        ("foo", "", -1),
        ("web-", "", -1),
        ("web-x", "", -1),
        ("web-01", "", -1),  # otherwise it would have the ordinal of web-1
        ("-1", "", 1),
    ],
)
def test_pod_name_contains_set_and_ordinal(name: str, parent: str, ordinal: int) -> None:
    assert parent_and_ordinal(name) == (parent, ordinal)


def test_pod_of_another_set_has_no_ordinal() -> None:
    assert ordinal_of("web-1-0", "web") is None
    assert ordinal_of("web-1-0", "web-1") == 0


def test_new_pod_has_its_name_hostname_and_claims() -> None:
    volumes = [{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}]
    found = read(a_set(claims=["data", "logs"]))
    template = {
        "metadata": {"labels": {"app": "web"}, "annotations": {"a": "b"}, "finalizers": ["f/f"], "name": "ignored"},
        "spec": {"containers": [], "volumes": volumes, "hostname": "other", "subdomain": "other"},
    }
    pod = pod_of(found, 4, template=template, revision="web-abc")
    assert pod["metadata"] == {
        "name": "web-4",
        "generateName": "web-",
        "namespace": "default",
        "labels": {
            "app": "web",
            "statefulset.kubernetes.io/pod-name": "web-4",
            "apps.kubernetes.io/pod-index": "4",
            "controller-revision-hash": "web-abc",
        },
        "annotations": {"a": "b"},
        "finalizers": ["f/f"],
        "ownerReferences": [
            {
                "apiVersion": "apps/v1",
                "kind": "StatefulSet",
                "name": "web",
                "uid": "uid-of-web",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    assert pod["spec"] == {
        "containers": [],
        "hostname": "web-4",
        "subdomain": "svc",
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-4"}},
            {"name": "logs", "persistentVolumeClaim": {"claimName": "logs-web-4"}},
            {"name": "tmp", "emptyDir": {}},
        ],
    }


def test_pod_has_no_subdomain_without_a_service() -> None:
    pod = pod_of(read(a_set(serviceName="")), 0, template={"spec": {"subdomain": "other"}}, revision="r")
    assert "subdomain" not in pod["spec"]


@pytest.mark.parametrize(
    ("volumes", "its"),
    [
        ([], False),
        ([{"name": "data", "emptyDir": {}}], False),
        ([{"name": "data", "persistentVolumeClaim": {"claimName": "data-web-2"}}], False),
        ([{"name": "data", "persistentVolumeClaim": {"claimName": "data-web-1"}}, {"name": "x"}], True),
    ],
)
def test_volumes_of_a_pod_are_compared_with_its_claims(volumes: list[Any], its: bool) -> None:
    found, pod = read(a_set(claims=["data"])), member(1, spec={"volumes": volumes})
    assert has_its_volumes(found, 1, pod) == its
    assert has_its_volumes(found, 1, with_its_identity(found, 1, pod))


def test_labels_of_a_pod_are_restored() -> None:
    pod = with_its_identity(read(a_set()), 1, member(1, labels={"app": "web"}))
    assert pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] == "web-1"
    assert pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "1"
