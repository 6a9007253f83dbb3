"""API resources: their names and paths."""

from __future__ import annotations

import pytest

from kcm.protocols import resources
from kcm.protocols.resources import Resource, resource_path


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
