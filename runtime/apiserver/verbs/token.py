"""POST to serviceaccounts/token: issue a token (kubelets, controllers, `kubectl create token`).

Source: kubernetes pkg/registry/core/serviceaccount/storage/token.go (v1.36).
"""

from __future__ import annotations

from typing import Any

from kcm.protocols.objects import Object, decode_object, encode_object, make_key, name_of, uid_of
from kcm.protocols.times import format_time
from kcm.runtime.apiserver.access.account_tokens import BOUND, Bound
from kcm.runtime.apiserver.admission import chain
from kcm.runtime.apiserver.core.body_decoder import decode_body
from kcm.runtime.apiserver.core.cluster import Cluster, RoutedRequest
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.errors.field_errors import invalid
from kcm.runtime.apiserver.kinds.authentication import token_request
from kcm.runtime.client.api import Response

GROUP, KIND = token_request.RESOURCE.group, token_request.RESOURCE.kind


def create_token(cluster: Cluster, call: RoutedRequest) -> Response:
    """Issue a token for the service account in the path. Nothing is stored. Raises StatusError."""
    if cluster.tokens is None:
        raise status_errors.method_not_allowed()
    request = decode_body(cluster, token_request.RESOURCE, call.request.body)
    request = chain.admit_body(cluster, call, token_request.RESOURCE, request)
    account = decode_object(cluster.record(call.definition, call.key).raw)
    meta, now = _settled_metadata(call, request, account), cluster.clock.now()
    token_request.set_defaults(request)
    errors = token_request.validate(request)
    if errors:
        raise status_errors.invalid(GROUP, KIND, "", errors)
    spec = request["spec"]
    spec["audiences"] = spec.get("audiences") or [*cluster.tokens.audiences]
    token = cluster.tokens.issue(
        account,
        audiences=spec["audiences"],
        bound=_bound(cluster, call, spec.get("boundObjectRef")),
        now=now,
        seconds=spec["expirationSeconds"],
        number=cluster.uid,
    )
    status = {"token": token, "expirationTimestamp": format_time(int(now) + spec["expirationSeconds"])}
    whole = {**request, "metadata": {**meta, "creationTimestamp": format_time(now)}, "spec": spec, "status": status}
    return Response(status=201, body=encode_object(whole))


def _settled_metadata(call: RoutedRequest, request: Object, account: Object) -> dict[str, Any]:
    meta = request["metadata"]
    for field, wanted in (("name", call.route.name), ("namespace", call.route.namespace)):
        if meta.get(field) and meta[field] != wanted:
            wrong = invalid(f"metadata.{field}", meta[field], f"must match the service account {field} if specified")
            raise status_errors.invalid(GROUP, KIND, call.route.name, [wrong])
    if meta.get("uid") and meta["uid"] != uid_of(account):
        because = (
            f"the UID in the token request ({meta['uid']}) does not match the UID of the service account "
            f"({uid_of(account)})"
        )
        raise status_errors.conflict(GROUP, KIND, call.route.name, because)
    return {**meta, "name": call.route.name, "namespace": call.route.namespace, "uid": uid_of(account)}


def _bound(cluster: Cluster, call: RoutedRequest, reference: Object | None) -> list[Bound]:
    if reference is None:
        return []
    kind = reference.get("kind", "")
    if kind not in BOUND or reference.get("apiVersion", "v1") != "v1":
        shown = f"{reference.get('apiVersion', '')}, Kind={kind}"
        raise status_errors.bad_request(f"cannot bind token to object of type {shown}")
    obj = _object(cluster, kind, make_key("" if kind == "Node" else call.route.namespace, reference.get("name", "")))
    if kind == "Pod" and (obj.get("spec") or {}).get("serviceAccountName") != call.route.name:
        raise status_errors.bad_request(
            f'cannot bind token for serviceaccount "{call.route.name}" to pod running with different serviceaccount '
            "name."
        )
    if reference.get("uid") and reference["uid"] != uid_of(obj):
        because = (
            f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record. The object "
            "might have been deleted and then recreated"
        )
        raise status_errors.conflict("", kind, name_of(obj), because)
    bound = [Bound(kind, name_of(obj), uid_of(obj))]
    node = obj["spec"].get("nodeName") if kind == "Pod" else ""
    if node:
        record = cluster.state.get(BOUND["Node"], node)
        bound.append(Bound("Node", node, "" if record is None else uid_of(decode_object(record.raw))))
    return bound


def _object(cluster: Cluster, kind: str, key: str) -> Object:
    """Return the object that the token is bound to. Raises StatusError (404) if it does not exist."""
    definition = cluster.registry.of_kind("v1", kind)
    assert definition is not None
    return decode_object(cluster.record(definition, key).raw)
