"""Audit log: one line of JSON for each stage of a request that the audit policy selects.

Source: apiserver pkg/endpoints/filters/{audit,authn_audit,authorization}.go, pkg/audit/request.go,
pkg/apis/audit/v1/types.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from kcm.protocols.times import format_micro_time
from kcm.runtime.apiserver.access.audit_policy import (
    COMPLETE,
    NONE,
    RECEIVED,
    REQUEST,
    REQUEST_RESPONSE,
    STARTED,
    AuditPolicy,
    Extent,
)
from kcm.runtime.apiserver.access.authentication import NO_CERTIFICATE, ClientIdentity
from kcm.runtime.apiserver.http.api_request import ApiRequest
from kcm.runtime.apiserver.registry.request_info import RequestInfo
from kcm.runtime.apiserver.registry.users import User, user_info
from kcm.runtime.client.api import Response

DECISION, REASON = "authorization.k8s.io/decision", "authorization.k8s.io/reason"
AUDIT_ID = b"audit-id"
UNAUTHENTICATED = 401
_LONG = ("attach", "exec", "log", "portforward", "proxy")  # subresources whose requests are long-running


class AuditLog:
    def __init__(
        self,
        policy: AuditPolicy,
        *,
        write: Callable[[bytes], None],
        now: Callable[[], float],
        number: Callable[[], str],
    ) -> None:
        """Create an audit log.

        write: writes one line, including the newline
        now: returns the current time in Unix seconds
        number: returns a new ID, for a request without an Audit-ID header
        """
        self._policy, self._write, self._now, self._number = policy, write, now, number

    def begin(self, request: ApiRequest, user: User, info: RequestInfo) -> None:
        """Set the observer of a request, which writes its audit events, if the policy selects the request."""
        extent = self._policy.extent(user, info)
        if extent.level != NONE:
            request.observer = AuditEntry(self, request, extent, user, info)

    def refuse_unauthenticated(self, request: ApiRequest, info: RequestInfo) -> None:
        """Write the audit event of a request that fails authentication (401), if the policy selects it."""
        extent = self._policy.extent(None, info)
        if extent.level != NONE:
            entry = AuditEntry(self, request, extent, None, info)
            entry.refuse(attempted=_attempted(request))

    def put(self, event: Mapping[str, Any]) -> None:
        self._write(orjson.dumps(event) + b"\n")

    def stamp(self) -> str:
        return format_micro_time(self._now())

    def id_of(self, request: ApiRequest) -> str:
        return request.headers.get(AUDIT_ID, b"").decode(errors="replace") or self._number()


class AuditEntry:
    """Writer of the audit events of one request. Implements Observer."""

    def __init__(
        self, log: AuditLog, request: ApiRequest, extent: Extent, user: User | None, info: RequestInfo
    ) -> None:
        self._log, self._extent = log, extent
        self._received = log.stamp()
        self._annotations: dict[str, str] = {}
        self._is_long = info.verb == "watch" or info.subresource in _LONG
        id_ = log.id_of(request)
        self.id = id_.encode()
        self._event: dict[str, Any] = {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": extent.level,
            "auditID": id_,
            "stage": "",
            "requestURI": request.target.decode(errors="replace"),
            "verb": info.verb,
            "user": {} if user is None else user_info(user),
        }
        self._more: dict[str, Any] = {"sourceIPs": _sources(request)}
        agent = request.headers.get(b"user-agent")
        if agent:
            self._more["userAgent"] = agent.decode(errors="replace")[:1024]
        if info.is_resource_request:
            self._more["objectRef"] = _reference(info)
        if user is not None:
            self._put(RECEIVED)

    def impersonated(self, user: User, constraint: str) -> None:
        """Record the impersonated user. constraint: see access.impersonation.Impersonated."""
        self._event["impersonatedUser"] = user_info(user)
        if constraint:
            self._event["authenticationMetadata"] = {"impersonationConstraint": constraint}

    def decided(self, *, allowed: bool, reason: str) -> None:
        self._annotations = {DECISION: "allow" if allowed else "forbid", REASON: reason}

    def requested(self, body: bytes) -> None:
        """Record the body of the request, which is JSON."""
        found = _decoded(body)
        if found is None:
            return
        if isinstance(found, dict) and "objectRef" in self._more:
            self._more["objectRef"] = _completed(self._more["objectRef"], found)
        if self._extent.level in (REQUEST, REQUEST_RESPONSE):
            self._more["requestObject"] = self._shown(found)

    def refuse(self, *, attempted: Sequence[str]) -> None:
        """Write the event of a failed authentication.

        attempted: types of the presented credentials: "basic", "bearer", "x509"
        """
        credentials = f"attempted: {', '.join(attempted)}" if attempted else "no credentials provided"
        status = {"metadata": {}, "status": "Failure", "message": f"Authentication failed, {credentials}"}
        self._more["responseStatus"] = {**status, "code": UNAUTHENTICATED}
        self._put(STARTED)

    def responded(self, response: Response) -> None:
        is_recorded = response.body.startswith(_STATUS) or self._extent.level == REQUEST_RESPONSE
        found = _decoded(response.body) if response.status >= 400 or is_recorded else None
        self._more["responseStatus"] = _status(response, found)
        if response.annotations:
            self._annotations = dict(sorted({**response.annotations, **self._annotations}.items()))
        if found is not None and self._extent.level == REQUEST_RESPONSE:
            self._more["responseObject"] = self._shown(found)
        if self._is_long:
            self._put(STARTED)
        self._put(COMPLETE)

    def started(self) -> None:
        self._more["responseStatus"] = {"metadata": {}, "code": 200}
        self._put(STARTED)

    def finished(self) -> None:
        self._put(COMPLETE)

    def _put(self, stage: str) -> None:
        if stage in self._extent.omitted:
            return
        self._event["stage"] = stage
        event = {**self._event, **_in_order(self._more)}
        event["requestReceivedTimestamp"], event["stageTimestamp"] = self._received, self._log.stamp()
        if self._annotations:
            event["annotations"] = self._annotations
        self._log.put(event)

    def _shown(self, found: Any) -> Any:
        return _without_managed_fields(found) if self._extent.without_managed_fields else found


_STATUS = b'{"kind":"Status",'  # first bytes of the responses to errors and deletions
_ORDER = ("sourceIPs", "userAgent", "objectRef", "responseStatus", "requestObject", "responseObject")


def _in_order(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: fields[name] for name in _ORDER if name in fields}


def _decoded(body: bytes) -> Any:
    """Return the parsed body; None if it is not JSON."""
    try:
        return orjson.loads(body)
    except ValueError:
        return None


def _attempted(request: ApiRequest) -> list[str]:
    """Return the types of the credentials of a request ("basic", "bearer", "x509"), in upstream's order."""
    scheme, space, _ = request.headers.get(b"authorization", b"").strip().lower().partition(b" ")
    found = [scheme.decode()] if space and scheme in (b"basic", b"bearer") else []
    identity: ClientIdentity | None = request.connection.identity
    if identity is not None and identity.certificate is not NO_CERTIFICATE:
        found.append("x509")
    return found


def _sources(request: ApiRequest) -> list[str]:
    forwarded_for = request.headers.get(b"x-forwarded-for", b"").decode(errors="replace")
    found = [address.strip() for address in forwarded_for.split(",") if address.strip()]
    real, peer = request.headers.get(b"x-real-ip", b"").decode(errors="replace").strip(), request.connection.peer
    if real and real not in found:
        found.append(real)
    if peer and (not found or found[-1] != peer):
        found.append(peer)
    return found


def _reference(info: RequestInfo) -> dict[str, str]:
    fields = {
        "resource": info.resource,
        "namespace": info.namespace,
        "name": info.name,
        "apiGroup": info.group,
        "apiVersion": info.version,
        "subresource": info.subresource,
    }
    return {name: value for name, value in fields.items() if value}


def _completed(reference: Mapping[str, str], obj: Mapping[str, Any]) -> dict[str, str]:
    """Return an object reference whose missing fields are set from the metadata of the object in the body."""
    meta = obj.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    names = ("resource", "namespace", "name", "uid", "apiGroup", "apiVersion", "resourceVersion", "subresource")
    own = ("namespace", "name", "uid", "resourceVersion")
    in_body = {name: meta[name] for name in own if isinstance(meta.get(name), str) and meta[name]}
    return {name: value for name in names if (value := reference.get(name) or in_body.get(name))}


def _status(response: Response, found: Any) -> dict[str, Any]:
    status: dict[str, Any] = {"metadata": {}}
    if isinstance(found, dict) and found.get("kind") == "Status":
        status |= {name: found[name] for name in ("status", "message", "reason", "details") if name in found}
    return {**status, "code": response.status}


def _without_managed_fields(obj: Any) -> Any:
    if not isinstance(obj, dict):
        return obj
    shown = dict(obj)
    if isinstance(obj.get("metadata"), dict):
        shown["metadata"] = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    if isinstance(obj.get("items"), list):
        shown["items"] = [_without_managed_fields(item) for item in obj["items"]]
    return shown
