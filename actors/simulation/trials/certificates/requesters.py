"""Certificate requests in trials: their kinds, their expected results, and user actions on them."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, NamedTuple

from kcm.actors.controllers.certificates.shared.requests import (
    CERTIFICATE_SIGNING_REQUESTS,
    CLIENT_AUTH,
    DIGITAL_SIGNATURE,
    KUBE_APISERVER_CLIENT,
    KUBELET_CLIENT,
    KUBELET_SERVING,
    NODE_PREFIX,
    NODES_GROUP,
    SERVER_AUTH,
)
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.trials.scenario import Action
from kcm.protocols.objects import encode_object
from kcm.protocols.resources import resource_path
from kcm.protocols.times import format_time
from kcm.runtime.apiserver.registry.users import Access, Decision, User
from kcm.runtime.client.api import Request
from kcm.runtime.simulation.keys import request_pem

BOOTSTRAPPER, STRANGER, PERSON = "system:bootstrap:abcdef", "mallory", "jane"
CLIENT_USAGES, SERVING_USAGES = (DIGITAL_SIGNATURE, CLIENT_AUTH), (DIGITAL_SIGNATURE, SERVER_AUTH)


class RequestKind(NamedTuple):
    """Kind of certificate request.

    name: prefix of the names of its requests.
    user: user that creates the request; "" for the node that the request names.
    organizations, dns_names: contents of the request.
    approves: subresource that the user is authorized to create, which permits automatic approval; "" if an
        administrator must approve the request.
    fits: whether the signer accepts the request once it is approved.
    """

    name: str
    signer: str
    usages: tuple[str, ...] = CLIENT_USAGES
    user: str = PERSON
    organizations: tuple[str, ...] = ()
    dns_names: tuple[str, ...] = ()
    approves: str = ""
    fits: bool = True

    @property
    def is_of_kubelet(self) -> bool:
        return self.signer in (KUBELET_CLIENT, KUBELET_SERVING)


KUBELET = (NODES_GROUP,)
OWN = RequestKind("own", KUBELET_CLIENT, user="", organizations=KUBELET, approves="selfnodeclient")
FIRST = RequestKind("first", KUBELET_CLIENT, user=BOOTSTRAPPER, organizations=KUBELET, approves="nodeclient")
FORGED = RequestKind("forged", KUBELET_CLIENT, user=STRANGER, organizations=KUBELET)
GREEDY = RequestKind("greedy", KUBELET_CLIENT, (*CLIENT_USAGES, SERVER_AUTH), "", KUBELET, fits=False)
SERVING = RequestKind("serving", KUBELET_SERVING, SERVING_USAGES, "", KUBELET, ("node",))
NAMELESS = RequestKind("nameless", KUBELET_SERVING, SERVING_USAGES, "", KUBELET, fits=False)
CLIENT = RequestKind("client", KUBE_APISERVER_CLIENT, CLIENT_USAGES, organizations=("dev",))
SERVER = RequestKind("server", KUBE_APISERVER_CLIENT, SERVING_USAGES, fits=False)
FOREIGN = RequestKind("foreign", "example.com/signer", fits=False)
KINDS: Mapping[str, RequestKind] = {
    requester.name: requester for requester in (OWN, FIRST, FORGED, GREEDY, SERVING, NAMELESS, CLIENT, SERVER, FOREIGN)
}


def kind_of(name: str) -> RequestKind | None:
    """Return the RequestKind of a request by the request's name; None for requests of other trials."""
    return KINDS.get(name.partition("-")[0])


def authorize(access: Access) -> Decision:
    """Decide an access review of the simulated API server.

    Automatic approval is permitted for renewals by kubelets and for first requests with bootstrap tokens. All other
    access is permitted too.
    """
    user, subresource = access.user.name, access.attributes.get("subresource")
    if subresource == "selfnodeclient":
        return Decision(allowed=user.startswith(NODE_PREFIX))
    if subresource == "nodeclient":
        return Decision(allowed=user == BOOTSTRAPPER)
    return Decision(allowed=True)


def pem_of(kind: RequestKind, name: str) -> bytes:
    common_name = f"{NODE_PREFIX}{name}" if kind.is_of_kubelet else PERSON
    return request_pem(common_name, *kind.organizations, dns_names=kind.dns_names)


def request_certificate(at: float, kind: RequestKind, name: str, **spec: Any) -> Action:
    """Return the action that creates a certificate request.

    name: name of the request, which must begin with the name of the kind.
    spec: additional fields of the request's spec.
    """

    def do(cluster: SimulatedCluster) -> bool:
        user = kind.user or f"{NODE_PREFIX}{name}"
        body = {
            "metadata": {"name": name},
            "spec": {
                "request": base64.b64encode(pem_of(kind, name)).decode(),
                "signerName": kind.signer,
                "usages": list(kind.usages),
                **spec,
            },
        }
        path = resource_path(CERTIFICATE_SIGNING_REQUESTS.id)
        asked = Request(method="POST", path=path, body=encode_object(body), content_type="application/json", query={})
        response = cluster.server.handle(asked, user=User(user))
        if response.status != 201:
            raise AssertionError(f"{path}: {response.status} {response.body.decode()}")
        return True

    return Action(at, f"{kind.user or 'a kubelet'} requests certificate {name}", do)


def decide(at: float, name: str, decision: str, *, ago: float = 0.0) -> Action:
    """Return the action by which an administrator approves or denies a request, once the request exists.

    A request that is decided already is not changed.

    decision: "Approved" or "Denied".
    ago: age of the decision in its lastUpdateTime, in seconds.
    """

    def do(cluster: SimulatedCluster) -> bool:
        request = cluster.get(CERTIFICATE_SIGNING_REQUESTS, name)
        if request is None:
            return False
        conditions = request["status"].get("conditions") or []
        if not any(condition["type"] in ("Approved", "Denied") for condition in conditions):
            condition: dict[str, Any] = {"type": decision, "status": "True", "reason": "ByHand", "message": "by hand"}
            if ago:
                condition["lastUpdateTime"] = format_time(cluster.clock.now() - ago)
            changes = {"status": {"conditions": [*conditions, condition]}}
            cluster.merge(CERTIFICATE_SIGNING_REQUESTS, name, changes, subresource="approval")
        return True

    since = f" {ago:g} s ago" if ago else ""
    return Action(at, f"certificate {name} is {decision.lower()}{since}", do)
