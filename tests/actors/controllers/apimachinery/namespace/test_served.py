"""Live discovery of the resources that a namespace may contain."""

from __future__ import annotations

import orjson
import pytest

from kcm.actors.controllers.apimachinery.namespace.served import Served, discover_served
from kcm.actors.simulation.driver import drive_steps
from kcm.protocols.messages.commands import Command, Fetch
from kcm.protocols.messages.outcomes import Done, NotFound, Outcome, ServerFailure, Unknown
from kcm.protocols.objects import Object
from kcm.runtime.tables.tables import Tables

ALL = ["create", "delete", "deletecollection", "get", "list", "watch"]


def resource(plural: str, *, scope: str = "Namespaced", verbs: list[str] = ALL, **more: str) -> Object:
    kind = {"group": "", "version": "", "kind": plural.title()}
    return {"resource": plural, "responseKind": kind, "scope": scope, "verbs": verbs, **more}


def group(name: str, *versions: Object) -> Object:
    return {"metadata": {"name": name}, "versions": list(versions)}


def version(name: str, *resources: Object, freshness: str = "Current") -> Object:
    return {"version": name, "freshness": freshness, "resources": list(resources)}


def aggregated(*groups: Object) -> Done:
    return Done(orjson.dumps({"kind": "APIGroupDiscoveryList", "items": list(groups)}))


def found(answers: dict[str, Outcome]) -> Served:
    def answer(command: Command) -> Outcome:
        assert isinstance(command, Fetch)
        return answers[command.path]

    served = drive_steps(discover_served(), answer, tables=Tables({})).result
    assert isinstance(served, Served)
    return served


def names(served: Served) -> list[str]:
    return [f"{resource.group}/{resource.version}/{resource.plural}" for resource in served.resources]


CORE = aggregated(group("", version("v1", resource("pods"), resource("nodes", scope="Cluster"))))


def test_deletable_namespaced_resources_are_found_in_their_preferred_version() -> None:
    apps = group(
        "apps",
        version("v1", resource("deployments"), resource("reviews", verbs=["create"])),
        version("v1beta1", resource("deployments"), resource("scales", verbs=["delete"])),
    )
    served = found({"/api": CORE, "/apis": aggregated(apps)})
    assert names(served) == ["/v1/pods", "apps/v1/deployments", "apps/v1beta1/scales"]
    assert (served.failure, served.unparsed) == ("", "")


def test_stale_group_is_a_failure_and_others_are_found() -> None:
    metrics = group("metrics.k8s.io", version("v1beta1", freshness="Stale"))
    custom = group("custom.metrics.k8s.io", version("v1", freshness="Stale"))
    served = found({"/api": CORE, "/apis": aggregated(metrics, custom, group("apps", version("v1", resource("a"))))})
    assert names(served) == ["/v1/pods", "apps/v1/a"]
    assert served.failure == (
        "Discovery failed for some groups, 2 failing: unable to retrieve the complete list of server APIs: "
        "custom.metrics.k8s.io/v1: stale GroupVersion discovery: custom.metrics.k8s.io/v1, "
        "metrics.k8s.io/v1beta1: stale GroupVersion discovery: metrics.k8s.io/v1beta1"
    )


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        (ServerFailure("HTTP 503", b"", 503), "the server is currently unable to handle the request"),
        (ServerFailure("broken", b"{}", 500), "broken"),
        (Unknown("timed out"), "timed out"),
        (Unknown(), "Unknown"),
        (Done(b"<html>"), "a discovery document that is not JSON"),
    ],
)
def test_error_of_a_failed_root_is_reported(outcome: Outcome, text: str) -> None:
    served = found({"/api": CORE, "/apis": outcome})
    assert names(served) == ["/v1/pods"]
    assert served.failure.startswith(text)


def test_each_group_version_is_fetched_without_aggregated_discovery() -> None:
    groups = [
        {"name": name, "versions": [{"version": "v1"}], "preferredVersion": {"version": "v1"}}
        for name in ("apps", "broken")
    ]
    listed = [{"name": "deployments", "kind": "Deployment", "namespaced": True, "verbs": ALL}]
    served = found(
        {
            "/api": CORE,
            "/apis": Done(orjson.dumps({"kind": "APIGroupList", "groups": groups})),
            "/apis/apps/v1": Done(orjson.dumps({"kind": "APIResourceList", "resources": listed})),
            "/apis/broken/v1": NotFound("the server could not find the requested resource"),
        }
    )
    assert names(served) == ["/v1/pods", "apps/v1/deployments"]
    assert served.failure == (
        "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: "
        "broken/v1: the server could not find the requested resource"
    )


def test_malformed_group_version_does_not_affect_others() -> None:
    odd = group("odd", version("v1/v2", resource("oddities")))
    served = found({"/api": CORE, "/apis": aggregated(odd, group("apps", version("v1", resource("a"))))})
    assert names(served) == ["/v1/pods", "apps/v1/a"]
    assert served.unparsed == "unexpected GroupVersion string: odd/v1/v2"
