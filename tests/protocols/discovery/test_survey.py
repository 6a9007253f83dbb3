"""Discovery of served resources, aggregated or by group; a failing group keeps its last known resources."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from kcm.protocols.discovery.documents import GroupVersion, InvalidDocumentError, read_group_version, read_root
from kcm.protocols.discovery.survey import Knowledge, Survey
from kcm.protocols.messages.discovery import ServedResource

V1, APPS, APPS_BETA, BROKEN = (
    GroupVersion("", "v1"),
    GroupVersion("apps", "v1"),
    GroupVersion("apps", "v1beta1"),
    GroupVersion("metrics.k8s.io", "v1beta1"),
)
VERBS = ("create", "delete", "get", "list", "watch")


def served(group_version: GroupVersion, plural: str, kind: str, **more: Any) -> ServedResource:
    group, version = group_version
    fields = {"namespaced": True, "verbs": VERBS, **more}
    return ServedResource(group=group, version=version, plural=plural, kind=kind, **fields)


PODS = served(V1, "pods", "Pod")
SETS = served(APPS, "replicasets", "ReplicaSet")


def aggregated(*groups: tuple[GroupVersion, list[ServedResource] | None]) -> dict[str, Any]:
    """Build an aggregated discovery document. None: a stale group version."""
    items: dict[str, dict[str, Any]] = {}
    for (group, version), resources in groups:
        item = items.setdefault(group, {"metadata": {"name": group} if group else {}, "versions": []})
        described = [
            {
                "resource": resource.plural,
                "responseKind": {"group": "", "version": "", "kind": resource.kind},
                "scope": "Namespaced" if resource.namespaced else "Cluster",
                "verbs": list(resource.verbs),
                "subresources": [{"subresource": "status", "verbs": ["get"]}],
            }
            for resource in resources or ()
        ]
        freshness = "Stale" if resources is None else "Current"
        item["versions"].append({"version": version, "resources": described, "freshness": freshness})
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": list(items.values())}


def resource_list(*resources: ServedResource) -> dict[str, Any]:
    named = [
        {"name": name, "kind": resource.kind, "namespaced": resource.namespaced, "verbs": list(resource.verbs)}
        for resource in resources
        for name in (resource.plural, f"{resource.plural}/status")
    ]
    return {"kind": "APIResourceList", "apiVersion": "v1", "resources": named}


class Server:
    """Server of discovery documents. documents: documents by path; an int is the status of a refusal."""

    def __init__(self, **documents: Any) -> None:
        self.documents: dict[str, Any] = dict(documents)

    def surveyed(self, before: Knowledge | None = None) -> Knowledge:
        survey = Survey(before or Knowledge())
        asked = ["/api", "/apis"]
        while asked:
            path = asked.pop()
            document = self.documents.get(path, 404)
            status, body = (document, b"") if isinstance(document, int) else (200, orjson.dumps(document))
            asked += survey.answered(path, status=status, body=body, error="")
        assert survey.is_over
        return survey.knowledge()


def plain(**documents: Any) -> Server:
    server = Server()
    server.documents = {
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/api/v1": resource_list(PODS),
        "/apis": {
            "kind": "APIGroupList",
            "groups": [
                {
                    "name": "apps",
                    "versions": [{"version": "v1beta1"}, {"version": "v1"}],
                    "preferredVersion": {"version": "v1"},
                },
                {"name": "metrics.k8s.io", "versions": [{"version": "v1beta1"}]},
            ],
        },
        "/apis/apps/v1": resource_list(SETS),
        "/apis/apps/v1beta1": resource_list(served(APPS_BETA, "replicasets", "ReplicaSet")),
        "/apis/metrics.k8s.io/v1beta1": resource_list(served(BROKEN, "pods", "PodMetrics")),
        **documents,
    }
    return server


def test_aggregated_discovery_takes_two_requests() -> None:
    server = Server()
    server.documents = {"/api": aggregated((V1, [PODS])), "/apis": aggregated((APPS, [SETS]))}
    known = server.surveyed()
    assert known.resources == (PODS, SETS)
    assert known.stalled == {}


def test_without_it_each_group_version_is_asked_for() -> None:
    known = plain().surveyed()
    assert [served.resource.id for served in known.resources] == [
        "v1/pods",
        "apps/v1/replicasets",
        "metrics.k8s.io/v1beta1/pods",
    ]


def test_a_resource_counts_once_in_the_version_that_its_server_prefers() -> None:
    only_beta = served(APPS_BETA, "controllerrevisions", "ControllerRevision")
    server = Server()
    server.documents = {
        "/api": aggregated((V1, [PODS])),
        "/apis": aggregated((APPS, [SETS]), (APPS_BETA, [served(APPS_BETA, "replicasets", "ReplicaSet"), only_beta])),
    }
    assert server.surveyed().resources == (PODS, SETS, only_beta)


def test_resources_that_cannot_be_watched_are_excluded() -> None:
    bindings = served(V1, "bindings", "Binding", verbs=("create",))
    server = Server()
    server.documents = {"/api": aggregated((V1, [PODS, bindings])), "/apis": aggregated()}
    assert server.surveyed().resources == (PODS,)


@pytest.mark.parametrize("broken", [500, 503, {"kind": "Status"}, {"kind": "APIResourceList", "resources": [{}]}])
def test_a_broken_group_keeps_what_was_known_of_it_and_stalls_no_other(broken: Any) -> None:
    before = plain().surveyed()
    server = plain(
        **{"/apis/metrics.k8s.io/v1beta1": broken, "/api/v1": resource_list(PODS, served(V1, "secrets", "Secret"))}
    )
    known = server.surveyed(before)
    assert list(known.stalled) == ["metrics.k8s.io/v1beta1"]
    assert {served.resource.id for served in known.resources} == {
        "v1/pods",
        "v1/secrets",
        "apps/v1/replicasets",
        "metrics.k8s.io/v1beta1/pods",
    }
    assert plain(**{"/apis/metrics.k8s.io/v1beta1": broken}).surveyed().resources == (PODS, SETS), "never known"


def test_a_stale_group_of_aggregated_discovery_is_broken_too() -> None:
    server = Server()
    server.documents = {"/api": aggregated((V1, [PODS])), "/apis": aggregated((APPS, [SETS]))}
    before = server.surveyed()
    server.documents["/apis"] = aggregated((APPS, None))
    known = server.surveyed(before)
    assert known.resources == (PODS, SETS)
    assert list(known.stalled) == ["apps/v1"]


def test_a_root_that_does_not_answer_keeps_all_its_groups() -> None:
    known = plain(**{"/apis": 503}).surveyed(plain().surveyed())
    assert len(known.resources) == 3
    assert known.stalled == {"/apis": "discovery answered 503"}


def test_a_group_that_its_root_does_not_name_any_more_is_gone() -> None:
    known = plain(**{"/apis": {"kind": "APIGroupList", "groups": []}}).surveyed(plain().surveyed())
    assert known.resources == (PODS,)


def test_document_without_response_in_time_is_stalled() -> None:
    survey = Survey(plain().surveyed())
    survey.answered("/api", status=200, body=orjson.dumps(aggregated((V1, [PODS]))), error="")
    survey.give_up("no answer")
    assert survey.is_over
    assert survey.knowledge().stalled == {"/apis": "no answer"}
    assert len(survey.knowledge().resources) == 3


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"kind":"APIGroupList"}', b'{"kind":"APIVersions","versions":5}']
)
def test_invalid_discovery_document_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidDocumentError):
        read_root(body)
    with pytest.raises(InvalidDocumentError):
        read_group_version(body, V1)
