"""Invariants of CertificateSigningRequests, checked against the state of the server."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kcm.actors.reconciliation.actor_names import controller_name
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.observer import Committed, Fail, Observation, Submitted, decoded, only, shown
from kcm.protocols.messages.commands import Delete
from kcm.protocols.objects import Object, decode_object, metadata, name_of, uid_of
from kcm.protocols.times import parse_time
from kcm.runtime.apiserver.registry.users import Access, User
from kcm.runtime.apiserver.storage.store import StoreChange
from kcm.runtime.simulation.keys import PemKeyPair

STORAGE = "certificatesigningrequests.certificates.k8s.io"
RESOURCE_ID = "certificates.k8s.io/v1/certificatesigningrequests"
CLEANER = controller_name("certificatesigningrequest-cleaner-controller")
POD_CLEANER = controller_name("podcertificaterequest-cleaner-controller")
HOUR = 3600.0


def _status(request: Mapping[str, Any]) -> Mapping[str, Any]:
    return request.get("status") or {}


def _conditions(request: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return _status(request).get("conditions") or ()


def _written(changes: Sequence[StoreChange]) -> Iterator[tuple[Object, Object]]:
    """Yield (new version, previous version) of each written request. The previous version of a new request is {}."""
    for change in changes:
        if change.storage == STORAGE and change.type != "DELETED":
            yield decoded(change.raw), decoded(change.previous) if change.previous else {}


def _asked(request: Mapping[str, Any]) -> Any:
    from kcm.runtime.x509.requests import parse_request  # heavy: cryptography

    return parse_request(base64.b64decode(request["spec"]["request"]))


class OnlyKubeletsAreApproved:
    """Invariant: automatic approval is limited to client certificates of nodes that an authorized user requests."""

    name = "only certificates of kubelets are approved automatically"
    observes = (only(Committed, STORAGE),)

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    def observe(self, observation: Observation, fail: Fail) -> None:
        if not isinstance(observation, Committed):
            return
        for after, before in _written(observation.changes):
            known = {condition["type"] for condition in _conditions(before)}
            for condition in _conditions(after):
                if condition["type"] == "Approved" and condition.get("reason") == "AutoApproved":
                    if known & {"Approved", "Denied"} - ({"Approved"} if _is_same(condition, before) else set()):
                        fail(f"{name_of(after)} was decided before")
                    elif "Approved" not in known and (problem := self._problem(after)):
                        fail(f"{name_of(after)} is approved: {problem}")

    def _problem(self, request: Object) -> str:
        from kcm.runtime.x509.requests import facts_of  # heavy: cryptography

        spec, facts = request["spec"], facts_of(_asked(request))
        if spec["signerName"] != "kubernetes.io/kube-apiserver-client-kubelet":
            return f"its signer is {spec['signerName']}"
        if facts.organizations != ("system:nodes",) or not facts.common_name.startswith("system:node:"):
            return f"its subject is {facts.common_name} of {facts.organizations}"
        if {*spec["usages"]} - {"digital signature", "key encipherment", "client auth"}:
            return f"its usages are {spec['usages']}"
        user = User(spec.get("username") or "", groups=tuple(spec.get("groups") or ()))
        ways = ["nodeclient"] + ["selfnodeclient"] * (user.name == facts.common_name)
        attributes = {"resource": "certificatesigningrequests", "verb": "create"}
        if not any(self._cluster.authorize(Access(user, {**attributes, "subresource": way})).allowed for way in ways):
            return f"{user.name} is not authorized"
        return ""


def _is_same(condition: Mapping[str, Any], before: Object) -> bool:
    return any(condition == other for other in _conditions(before))


class SignedAsApproved:
    """Invariant: signed certificates match approved requests and do not change.

    A certificate must be signed by one of the authorities that the signer's files contained since the request was
    created. It is not checked by which one, because the files for certificate and key are replaced one after the other.
    """

    name = "certificates match approved requests"
    observes = (only(Committed, STORAGE),)

    def __init__(self, authorities: Sequence[PemKeyPair], current: Callable[[], PemKeyPair]) -> None:
        """Initialise the invariant.

        authorities: all authorities, in the order in which the files will contain them.
        current: returns the authority in the files.
        """
        self._authorities, self._current = authorities, current
        self._replaced: dict[str, int] = {}  # uid → number of authorities replaced before the request was created

    def observe(self, observation: Observation, fail: Fail) -> None:
        if not isinstance(observation, Committed):
            return
        for after, before in _written(observation.changes):
            if not before and (now := self._current()) in self._authorities:
                self._replaced[uid_of(after)] = self._authorities.index(now)
            made, there = (_status(request).get("certificate") for request in (after, before))
            if there and made != there:
                fail(f"the certificate of {name_of(after)} is replaced")
            elif made and not there and (problem := self._problem(after, made)):
                fail(f"{name_of(after)} is issued: {problem}")

    def _problem(self, request: Object, certificate: str) -> str:
        from cryptography import x509  # heavy
        from cryptography.exceptions import InvalidSignature

        types = {condition["type"] for condition in _conditions(request)}
        if "Approved" not in types or types & {"Denied", "Failed"}:
            return f"its conditions are {sorted(types)}"
        made, asked = x509.load_pem_x509_certificate(base64.b64decode(certificate)), _asked(request)
        if (made.subject, made.public_key()) != (asked.subject, asked.public_key()):
            return f"it is for {made.subject.rfc4514_string()}"
        seconds = (made.not_valid_after_utc - made.not_valid_before_utc).total_seconds()
        wanted = request["spec"].get("expirationSeconds")
        if wanted and seconds > wanted + 300:
            return f"it is valid for {seconds} s instead of {wanted} s"
        for pair in self._authorities[self._replaced.get(uid_of(request), 0) :]:
            try:
                made.verify_directly_issued_by(x509.load_pem_x509_certificate(pair.certificate))
            except (InvalidSignature, ValueError, TypeError):
                continue
            return ""
        return "no authority of the signer has signed it"


def is_overdue(request: Mapping[str, Any], *, now: float) -> bool:
    """Report whether a CertificateSigningRequest is so old that it may be deleted. now: Unix seconds."""
    ages = {condition["type"]: now - parse_time(condition["lastUpdateTime"]) for condition in _conditions(request)}
    if not ages:
        return now - parse_time(metadata(request)["creationTimestamp"]) > 24 * HOUR
    approved = ages.get("Approved", 0.0) > (HOUR if _status(request).get("certificate") else 24 * HOUR)
    return approved or _is_expired(request, now) or max(ages.get("Denied", 0.0), ages.get("Failed", 0.0)) > HOUR


def _is_expired(request: Mapping[str, Any], now: float) -> bool:
    certificate = _status(request).get("certificate")
    if not certificate:
        return False
    from kcm.runtime.x509.authority import end_of_certificate  # heavy: cryptography

    end = end_of_certificate(base64.b64decode(certificate))
    return end is not None and end < now


class OnlyOverdueRequestsAreCleaned:
    """Invariant: the cleaner deletes a CertificateSigningRequest only if it is overdue in its informer cache."""

    name = "only overdue certificate requests are deleted"
    observes = (only(Submitted, CLEANER),)

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    def observe(self, observation: Observation, fail: Fail) -> None:
        match observation:
            case Submitted(process, system, submit) if submit.sender == CLEANER:
                now = self._cluster.processes[process].process.clock.now()  # the clock of a process may be wrong
                for command in submit.commands:
                    if not isinstance(command, Delete):
                        continue
                    entry = shown(system, RESOURCE_ID, command.key)
                    if entry is None or entry.uid != command.uid:
                        continue
                    if not is_overdue(decode_object(entry.raw), now=now):
                        fail(f"{command.key} is deleted too early")


class OnlyOldPodRequestsAreCleaned:
    """Invariant: the cleaner deletes a PodCertificateRequest only if it is old enough in its informer cache."""

    name = "no PodCertificateRequest is deleted early"
    observes = (only(Submitted, POD_CLEANER),)

    def __init__(self, cluster: SimulatedCluster, life: float) -> None:
        """Initialise the invariant. life: minimum age of a request when it is deleted, in seconds."""
        self._cluster, self._life = cluster, life

    def observe(self, observation: Observation, fail: Fail) -> None:
        match observation:
            case Submitted(process, system, submit) if submit.sender == POD_CLEANER:
                now = self._cluster.processes[process].process.clock.now()
                for command in submit.commands:
                    entry = shown(system, command.resource, command.key) if isinstance(command, Delete) else None
                    if entry is not None and entry.uid == getattr(command, "uid", ""):
                        age = now - parse_time(metadata(decode_object(entry.raw))["creationTimestamp"])
                        if age < self._life:
                            fail(f"{entry.key} is deleted after {age:.0f} s")
