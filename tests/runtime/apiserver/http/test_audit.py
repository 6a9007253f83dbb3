"""Audit events of requests.

Cases of kubernetes v1.36 apiserver pkg/endpoints/filters/{audit,authn_audit}_test.go.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import pytest

from kcm.runtime.apiserver.access.audit_policy import AuditPolicy
from kcm.runtime.apiserver.http.audit import AuditLog
from kcm.runtime.apiserver.kinds.built_in import BUILT_IN
from kcm.runtime.apiserver.registry.users import User
from tests.runtime.apiserver.http.served import NOW, PODS, TOKEN, Served, posted_pod, run, until

USERS = {TOKEN: User("root", groups=("system:masters",)), "jane": User("jane")}
JANE = {"Authorization": "Bearer jane"}
AT = "2026-01-02T03:00:00.000000Z"
NO_START = ["RequestReceived"]


class RecordedEvents:
    def __init__(self, *rules: dict[str, Any], omit: list[str] = NO_START, **policy: Any) -> None:
        given = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": list(rules), "omitStages": omit, **policy}
        self.lines: list[bytes] = []
        self.log = AuditLog(AuditPolicy(given), write=self.lines.append, now=lambda: NOW, number=lambda: "id-1")

    @property
    def events(self) -> list[dict[str, Any]]:
        assert all(line.endswith(b"\n") for line in self.lines)
        return [orjson.loads(line) for line in self.lines]

    def during(self, scenario: Callable[[Served], Awaitable[None]], *, anonymous: bool = True) -> None:
        async def whole(served: Served) -> None:
            await served.ask("POST", "/api/v1/namespaces", json={"metadata": {"name": "default"}})
            self.lines.clear()
            await scenario(served)

        run(whole, resources=BUILT_IN, users=USERS, role_based=True, audit=self.log, anonymous=anonymous)


def test_request_has_events_for_its_start_and_completion() -> None:
    noted = RecordedEvents({"level": "Metadata"}, omit=[])

    async def scenario(served: Served) -> None:
        answer = await served.get(f"{PODS}/x?pretty=0", headers={"User-Agent": "me/1"})
        assert answer.headers["Audit-Id"] == "id-1"

    noted.during(scenario)
    received, complete = noted.events
    common = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": "id-1",
        "requestURI": f"{PODS}/x?pretty=0",
        "verb": "get",
        "user": {"username": "root", "groups": ["system:masters", "system:authenticated"]},
        "sourceIPs": ["127.0.0.1"],
        "userAgent": "me/1",
        "objectRef": {"resource": "pods", "namespace": "default", "name": "x", "apiVersion": "v1"},
        "requestReceivedTimestamp": AT,
        "stageTimestamp": AT,
    }
    assert received == {**common, "stage": "RequestReceived"}
    assert complete == {
        **common,
        "stage": "ResponseComplete",
        "responseStatus": {
            "metadata": {},
            "status": "Failure",
            "message": 'pods "x" not found',
            "reason": "NotFound",
            "details": {"name": "x", "kind": "pods"},
            "code": 404,
        },
        "annotations": {"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": ""},
    }


@pytest.mark.parametrize(("level", "objects"), [("Metadata", 0), ("Request", 1), ("RequestResponse", 2)])
def test_level_determines_recorded_objects(level: str, objects: int) -> None:
    noted = RecordedEvents({"level": level})

    async def scenario(served: Served) -> None:
        await served.create("a")

    noted.during(scenario)
    (event,) = noted.events
    assert event["objectRef"] == {"resource": "pods", "namespace": "default", "name": "a", "apiVersion": "v1"}
    assert event["responseStatus"] == {"metadata": {}, "code": 201}
    assert [name for name in ("requestObject", "responseObject") if name in event] == [
        "requestObject",
        "responseObject",
    ][:objects]
    if objects:
        assert event["requestObject"] == posted_pod("a")
    if objects == 2:
        assert event["responseObject"]["metadata"]["uid"]


def test_status_response_of_a_deletion_is_recorded_at_metadata_level() -> None:
    noted = RecordedEvents({"level": "Metadata"})

    async def scenario(served: Served) -> None:
        await served.ask("POST", "/api/v1/namespaces/default/secrets", json={"metadata": {"name": "s"}})
        await served.ask("DELETE", "/api/v1/namespaces/default/secrets/s")

    noted.during(scenario)
    status = noted.events[-1]["responseStatus"]
    assert (status["status"], status["details"]["kind"], status["code"]) == ("Success", "secrets", 200)


def test_annotations_of_admission_are_recorded() -> None:
    noted = RecordedEvents({"level": "Metadata"})

    async def scenario(served: Served) -> None:
        await served.create("a")

    noted.during(scenario)
    assert noted.events[-1]["annotations"] == {
        "authorization.k8s.io/decision": "allow",
        "authorization.k8s.io/reason": "",
        "pod-security.kubernetes.io/enforce-policy": "privileged:latest",
    }


def test_managed_fields_are_omitted_if_the_policy_omits_them() -> None:
    noted = RecordedEvents({"level": "RequestResponse"}, omitManagedFields=True)

    async def scenario(served: Served) -> None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "b"}}
        path = "/api/v1/namespaces/default/configmaps"
        headers = {"Content-Type": "application/apply-patch+yaml"}
        await served.ask("PATCH", f"{path}/m?fieldManager=t", json=body, headers=headers)
        await served.get(path)

    noted.during(scenario)
    applied, listed = noted.events
    assert "managedFields" not in applied["responseObject"]["metadata"]
    assert "managedFields" not in listed["responseObject"]["items"][0]["metadata"]


def test_watch_has_events_for_its_start_and_end() -> None:
    noted = RecordedEvents({"level": "Metadata", "verbs": ["watch"]})

    async def scenario(served: Served) -> None:
        async with served.session.get(f"{served.url}{PODS}?watch=1") as response:
            assert response.status == 200
        await until(lambda: len(noted.lines) == 2)

    noted.during(scenario)
    assert [(event["stage"], event["responseStatus"]["code"]) for event in noted.events] == [
        ("ResponseStarted", 200),
        ("ResponseComplete", 200),
    ]


def test_forbidden_impersonated_and_anonymous_requests_are_recorded() -> None:
    noted = RecordedEvents({"level": "Metadata"})

    async def scenario(served: Served) -> None:
        await served.get(PODS, headers=JANE)
        await served.get(PODS, headers={"Impersonate-User": "joe", "Impersonate-Group": "dev"})
        await served.get(PODS, headers={"Authorization": ""})

    noted.during(scenario)
    forbidden, impersonated, anonymous = noted.events
    assert forbidden["annotations"] == {"authorization.k8s.io/decision": "forbid", "authorization.k8s.io/reason": ""}
    assert (forbidden["user"]["username"], forbidden["responseStatus"]["code"]) == ("jane", 403)
    assert impersonated["user"]["username"] == "root"
    assert impersonated["impersonatedUser"] == {"username": "joe", "groups": ["dev", "system:authenticated"]}
    assert impersonated["authenticationMetadata"] == {"impersonationConstraint": "impersonate:user-info"}
    assert impersonated["responseStatus"]["code"] == 403
    assert anonymous["user"] == {"username": "system:anonymous", "groups": ["system:unauthenticated"]}
    assert (anonymous["stage"], anonymous["responseStatus"]["code"]) == ("ResponseComplete", 403)


def test_failed_authentication_is_recorded_with_the_kinds_of_credentials() -> None:
    noted = RecordedEvents({"level": "Metadata"})

    async def scenario(served: Served) -> None:
        for authorization in ("Bearer wrong", "Basic eDp5", "", "Digest x"):
            assert (await served.get(PODS, headers={"Authorization": authorization})).status == 401

    noted.during(scenario, anonymous=False)
    reasons = ("attempted: bearer", "attempted: basic", "no credentials provided", "no credentials provided")
    for event, why in zip(noted.events, reasons, strict=True):
        assert (event["stage"], event["user"]) == ("ResponseStarted", {})
        assert event["responseStatus"] == {
            "metadata": {},
            "status": "Failure",
            "message": f"Authentication failed, {why}",
            "code": 401,
        }


def test_request_without_a_matching_rule_is_not_recorded() -> None:
    noted = RecordedEvents(
        {"level": "None", "users": ["root"]}, {"level": "Metadata", "resources": [{"resources": ["pods"]}]}
    )

    async def scenario(served: Served) -> None:
        assert (await served.get(PODS)).headers["Audit-Id"]  # the response has an id nevertheless, as upstream
        await served.get("/apis", headers=JANE)
        await served.get("/api/v1/nodes", headers=JANE)
        await served.get(PODS, headers={**JANE, "Audit-ID": "mine"})

    noted.during(scenario)
    assert [(event["objectRef"]["resource"], event["auditID"]) for event in noted.events] == [("pods", "mine")]
