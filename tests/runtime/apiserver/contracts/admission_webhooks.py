"""Admission webhooks: the reviews that they are sent, and the effect of their responses.

Each scenario configures its own webhooks, for ConfigMaps unless it names other resources.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tests.runtime.apiserver.conftest import Api
from tests.runtime.apiserver.contracts import requests
from tests.runtime.apiserver.contracts.contract import Contract, real_sender, webhook_server
from tests.runtime.apiserver.contracts.requests import MERGE, NAMESPACE, Given, Send, Step, replicaset
from tests.runtime.apiserver.webhooks import Hook

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
NAME = "contract"
UNREACHED = "https://127.0.0.1:1"
MARKERS = "serviceaccounts"  # no scenario creates them

Configured = dict[str, Any]


def hook(path: str, *resources: str, name: str = "", **more: Any) -> Configured:
    """Return a configured webhook.

    path: path of the webhook's URL, or the whole URL
    resources: "configmaps" by default
    """
    rule = {
        "apiGroups": more.pop("groups", ["", "apps", "policy", "autoscaling"]),
        "apiVersions": more.pop("api_versions", ["v1"]),
        "operations": more.pop("operations", ["*"]),
        "resources": list(resources) or ["configmaps"],
        "scope": more.pop("scope", "*"),
    }
    return {
        "name": name or f"{path.strip('/').replace('/', '-').replace(':', '') or 'x'}.example.com",
        "clientConfig": {"url": path},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **more,
    }


class Scenario(NamedTuple):
    mutating: list[Configured]
    validating: list[Configured]
    steps: list[Step]


def config_map(name: str = "c", labels: dict[str, str] | None = None, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, **({"labels": labels} if labels else {})}, "data": data or {"a": "b"}}


def make(name: str = "c", labels: dict[str, str] | None = None, dry_run: str = "") -> Step:
    return Step("POST", "configmaps", config_map(name, labels), query={"dryRun": dry_run} if dry_run else {})


def failing(path: str, **more: Any) -> Scenario:
    return Scenario([hook(path, **more)], [], [make()])


def judging(path: str, **more: Any) -> Scenario:
    return Scenario([], [hook(path, **more)], [make()])


DRY = {"dryRun": "All"}
SCENARIOS: dict[str, Scenario] = {
    "what a webhook is asked": Scenario(
        [hook("/allow", name="m.example.com")],
        [hook("/allow", name="v.example.com")],
        [
            make(),
            Step("POST", "configmaps", {"metadata": {"generateName": "x-"}}),
            Step("PUT", "configmaps/c", config_map(a="c"), query={"fieldManager": "me"}),
            Step("PATCH", "configmaps/c", {"data": {"d": "e"}}, MERGE),
            Step("PATCH", "configmaps/c", {"data": {"f": "g"}}, MERGE, query=DRY),
            Step("DELETE", "configmaps/c", {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}),
        ],
    ),
    "a webhook refuses": judging("/deny"),
    "with a message": judging("/deny-because"),
    "with a reason": judging("/deny-reason"),
    "with details": judging("/deny-details"),
    "one that may change it refuses": failing("/deny-because"),
    "warnings": Scenario([hook("/warn")], [], [make()]),
    "of several the order is that of configurations": Scenario(
        [hook("/label-a"), hook("/label-b"), hook("/data")], [hook("/allow")], [make(), make("d", {"x": "y"})]
    ),
    "called again": Scenario(
        [hook("/count", reinvocationPolicy="IfNeeded"), hook("/label-a"), hook("/label-b")], [], [make()]
    ),
    "called again for none of its own changes": Scenario(
        [hook("/label-a"), hook("/count", reinvocationPolicy="IfNeeded")], [], [make()]
    ),
    "a type is wrong": failing("/wrong-type"),
    "a patch that does not apply": failing("/nowhere"),
    "an empty patch": failing("/empty-patch"),
    "a patch without its type": failing("/no-patch-type"),
    "a type without its patch": failing("/no-patch"),
    "a patch of another type": failing("/other-patch"),
    "a malformed patch": failing("/bad-patch"),
    "another uid": failing("/wrong-uid"),
    "no response": judging("/silent"),
    "an old review": judging("/old"),
    "a failure": judging("/fails"),
    "a failure that is ignored": judging("/fails", failurePolicy="Ignore"),
    "a path that is not there": judging("/lost"),
    "nobody there": judging(f"{UNREACHED}/x", name="u.example.com"),
    "nobody there, which is ignored": Scenario(
        [hook(f"{UNREACHED}/x", name="u.example.com", failurePolicy="Ignore"), hook("/label-a")], [], [make()]
    ),
    "a service that is not there": judging(
        "/x", name="s.example.com", clientConfig={"service": {"name": "none", "namespace": NAMESPACE}}
    ),
    "a change of what judges": judging("/label-a"),
    "no versions in common": judging("/allow", admissionReviewVersions=["v1beta2", "v1"]),
    "side effects and dry run": Scenario(
        [], [hook("/allow", sideEffects="NoneOnDryRun")], [make(dry_run="All"), make()]
    ),
    "deletions": Scenario(
        [],
        [hook("/deny", operations=["DELETE"])],
        [make(), Step("DELETE", "configmaps/c"), Step("DELETE", "configmaps/none"), Step("GET", "configmaps/c")],
    ),
    "a deletion is not changed": Scenario(
        [hook("/data", operations=["DELETE"])], [], [make(), Step("DELETE", "configmaps/c")]
    ),
    "operations and resources": Scenario(
        [],
        [
            hook("/deny", "secrets"),
            hook("/deny", operations=["UPDATE"], name="u.example.com"),
            hook("/deny", groups=["apps"], name="g.example.com"),
            hook("/deny", api_versions=["v2"], name="v.example.com"),
            hook("/deny", scope="Cluster", name="c.example.com"),
        ],
        [
            make(),
            Step("PUT", "configmaps/c", config_map()),
            Step("POST", "secrets", {"metadata": {"name": "s"}}),
        ],
    ),
    "objects are selected": Scenario(
        [],
        [hook("/deny", objectSelector={"matchLabels": {"x": "y"}})],
        [
            make("a"),
            make("b", {"x": "y"}),
            Step("PATCH", "configmaps/a", {"metadata": {"labels": {"x": "y"}}}, MERGE),
            Step("DELETE", "configmaps/a"),
        ],
    ),
    "namespaces are selected": Scenario(
        [],
        [
            hook("/deny", namespaceSelector={"matchLabels": {"none": "such"}}),
            hook(
                "/warn",
                name="w.example.com",
                namespaceSelector={"matchExpressions": [{"key": "none", "operator": "DoesNotExist"}]},
            ),
        ],
        [make()],
    ),
    "conditions": Scenario(
        [],
        [
            hook("/deny", matchConditions=[{"name": "a", "expression": "object.metadata.name == 'a'"}]),
            hook(
                "/deny-because",
                matchConditions=[
                    {"name": "is-b", "expression": "object.metadata.name == 'b'"},
                    {"name": "creates", "expression": "request.operation == 'CREATE' && oldObject == null"},
                    {"name": "may", "expression": "authorizer.requestResource.check('get').allowed()"},
                ],
            ),
            hook(
                "/deny-reason",
                operations=["CREATE"],
                matchConditions=[
                    {"name": "fails", "expression": "object.none.such == 1"},
                    {"name": "is-d", "expression": "object.metadata.name == 'd'"},
                ],
            ),
            hook(
                "/deny-details",
                operations=["CREATE"],
                failurePolicy="Ignore",
                matchConditions=[{"name": "fails", "expression": "object.none.such == 1"}],
            ),
        ],
        [make("a"), make("b"), make("c"), make("d"), Step("PATCH", "configmaps/c", {"data": {"e": "f"}}, MERGE)],
    ),
    "subresources": Scenario(
        [hook("/replicas", "deployments/scale", name="s.example.com")],
        [hook("/allow", "deployments", "deployments/status", "deployments/scale", "pods/eviction")],
        [
            Step("POST", "deployments", replicaset(replicas=1)),
            Step("PATCH", "deployments/web/status", {"status": {"observedGeneration": 1}}, MERGE),
            Step("PATCH", "deployments/web/scale", {"spec": {"replicas": 3}}, MERGE),
            Step("DELETE", "deployments/web"),
        ],
    ),
}


class Side(NamedTuple):
    """A server, and the webhook that it calls.

    url: URL of the webhook
    authority: authority of its certificate
    settle: waits until the configuration has taken effect, or has been removed
    """

    send: Send
    hook: Hook
    url: str
    authority: bytes
    settle: Callable[[bool], None]


def play(name: str, side: Side) -> dict[str, Any]:
    """Return the responses, and the requests that the webhook received meanwhile."""
    scenario = SCENARIOS[name]
    side.send(Given("POST", "/api/v1/namespaces", _json({"metadata": {"name": NAMESPACE}}), requests.JSON, {}))
    _configure(side, scenario)
    side.settle(True)
    side.hook.heard.clear()
    try:
        answers = requests.play_steps(scenario.steps, side.send)
    finally:
        heard = list(side.hook.heard)
        for kind in _KINDS:
            side.send(Given("DELETE", f"{CONFIGURATIONS}/{kind}/{NAME}", b"", requests.JSON, {}))
        side.settle(False)
        for path in ("api/v1/{}/configmaps", "api/v1/{}/secrets", "apis/apps/v1/{}/deployments"):
            place = "/" + path.format(f"namespaces/{NAMESPACE}")
            side.send(Given("DELETE", place, b"", requests.JSON, {}))
    whole = {"answers": answers, "heard": [[path, _plain(asked)] for path, asked in heard]}
    text = _json(whole).decode().replace(side.url, "https://webhook")
    for pattern, instead in _DRAWN:
        text = pattern.sub(instead, text)
    plain: dict[str, Any] = json.loads(text)
    return plain


_KINDS = {"mutatingwebhookconfigurations": 0, "validatingwebhookconfigurations": 1}
# Random names and uids, and error texts of the patch libraries.
_DRAWN = (
    (re.compile(r'"x-\w{5}"'), '"x-<drawn>"'),
    (re.compile(r'expected response.uid=\\+"[-\w]+\\+"'), "expected response.uid=<uid>"),
    (re.compile(r"(error in remove for path|the JSON patch cannot be applied): [^\"]+"), "<does not apply>"),
    (re.compile(r"(received undecodable patch in webhook response): [^\"]+"), r"\1"),
)
# Fields that differ from run to run, and the user.
_LEFT_OUT = {"uid", "resourceVersion", "creationTimestamp", "managedFields", "userInfo", "lastUpdateTime"}


def _configure(side: Side, scenario: Scenario) -> None:
    """Configure the webhooks. Each configuration has an additional webhook, which rejects a marker object."""
    bundle = base64.b64encode(side.authority).decode()
    for kind, place in _KINDS.items():
        marker = hook("/deny", MARKERS, name="marker.example.com", objectSelector={"matchLabels": {"marker": kind}})
        hooks = []
        for webhook in (*scenario[place], marker):
            client = webhook["clientConfig"]
            url = client.get("url", "")
            if url.startswith("/"):
                client = {"url": f"{side.url}{url}"}
            hooks.append({**webhook, "clientConfig": {**client, **({"caBundle": bundle} if bundle else {})}})
        body = {"metadata": {"name": NAME}, "webhooks": hooks}
        status, answer = side.send(Given("POST", f"{CONFIGURATIONS}/{kind}", _json(body), requests.JSON, {}))
        if status != 201:
            raise AssertionError(answer)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {field: _plain(inner) for field, inner in value.items() if field not in _LEFT_OUT}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


@contextmanager
def _real(directory: Path, assets: Path) -> Iterator[Callable[[str], Side]]:
    from tests.e2e.programs import until

    asked = Hook()
    with webhook_server(asked, directory) as (url, authority), real_sender(directory, assets) as send:

        def in_force(kind: str) -> bool:
            marker = {"metadata": {"name": "marker", "labels": {"marker": kind}}}
            path = f"/api/v1/namespaces/{NAMESPACE}/{MARKERS}"
            return "denied" in str(send(Given("POST", path, _json(marker), requests.JSON, {"dryRun": "All"}))[1])

        def settle(wanted: bool) -> None:
            for kind in _KINDS:
                until(partial(lambda kind: in_force(kind) == wanted, kind), f"{kind}: {wanted}")

        yield lambda _scenario: Side(send, asked, url, authority, settle)


def _embedded(make_api: type[Api], _scenario: str) -> Side:
    hook = Hook()
    return Side(
        make_api(call_webhook=hook.ask).answer, hook, "https://127.0.0.1:9443", b"", settle=lambda _wanted: None
    )


CONTRACT = Contract("admission_webhooks", SCENARIOS, play, embedded=_embedded, real=_real)
