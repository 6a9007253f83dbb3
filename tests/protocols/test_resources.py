"""API resources: their names and paths."""

from __future__ import annotations

import pytest

from kcm.protocols import resources
from kcm.protocols.resources import Resource, resource_path, split_path


def all_resources() -> list[Resource]:
    return [value for value in vars(resources).values() if isinstance(value, Resource)]


@pytest.mark.parametrize(
    ("resource", "api_version", "id", "name"),
    [
        (resources.PODS, "v1", "v1/pods", "pods"),
        (resources.REPLICASETS, "apps/v1", "apps/v1/replicasets", "replicasets.apps"),
        (resources.LEASES, "coordination.k8s.io/v1", "coordination.k8s.io/v1/leases", "leases.coordination.k8s.io"),
    ],
)
def test_how_a_resource_is_named(resource: Resource, api_version: str, id: str, name: str) -> None:
    assert (resource.api_version, resource.id, resource.name, str(resource)) == (api_version, id, name, name)


def test_no_two_resources_share_an_id() -> None:
    ids = [resource.id for resource in all_resources()]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        (("v1/pods",), "/api/v1/pods"),
        (("v1/pods", "default"), "/api/v1/namespaces/default/pods"),
        (("v1/pods", "default", "web"), "/api/v1/namespaces/default/pods/web"),
        (("v1/pods", "default", "web", "binding"), "/api/v1/namespaces/default/pods/web/binding"),
        (("v1/nodes", "", "n1", "status"), "/api/v1/nodes/n1/status"),
        (("apps/v1/replicasets", "default", "web"), "/apis/apps/v1/namespaces/default/replicasets/web"),
        (("example.com/v1beta1/widgets",), "/apis/example.com/v1beta1/widgets"),
    ],
)
def test_the_path_of_a_resource(arguments: tuple[str, ...], path: str) -> None:
    assert resource_path(*arguments) == path


@pytest.mark.parametrize("id", ["", "pods", "/pods", "v1/", "a/b/c/d"])
def test_invalid_resource_id_has_no_path(id: str) -> None:
    with pytest.raises(ValueError, match="not a resource id"):
        resource_path(id)


@pytest.mark.parametrize("resource", all_resources(), ids=str)
def test_every_resource_has_a_path(resource: Resource) -> None:
    root = "/apis/" if resource.group else "/api/"
    assert resource_path(resource.id) == f"{root}{resource.api_version}/{resource.plural}"


def test_resource_on_a_cluster_has_its_name_in_front() -> None:
    pods, sets = resources.PODS.on("edge"), resources.REPLICASETS.on("edge-7")
    assert (pods.id, pods.name, pods.api_version) == ("edge:v1/pods", "edge:pods", "v1")
    assert (sets.id, sets.name) == ("edge-7:apps/v1/replicasets", "edge-7:replicasets.apps")
    assert resource_path(pods.id, "default", "web") == "/clusters/edge/api/v1/namespaces/default/pods/web"
    assert pods != resources.PODS
    assert pods == resources.PODS.on("hub").on("edge")


@pytest.mark.parametrize("name", ["Edge", "edge:1", "", "-edge", "x" * 64])
def test_invalid_name_of_a_cluster_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="cluster"):
        resources.PODS.on(name)


@pytest.mark.parametrize(
    ("path", "parts"),
    [("/clusters/edge/api/v1", ("edge", "/api/v1")), ("/api/v1", ("", "/api/v1")), ("/clusters/edge", ("edge", "/"))],
)
def test_path_is_split_into_cluster_and_the_path_on_its_server(path: str, parts: tuple[str, str]) -> None:
    assert split_path(path) == parts
