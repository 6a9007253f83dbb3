"""Requests to connect to a pod, a node or a Service: attach, exec, portforward and proxy.

Nothing runs here that they could reach, so they fail (NeedsContainerError). Policies and webhooks for the operation
CONNECT run before that, as upstream, and may refuse them with another error.

Source: apiserver pkg/endpoints/handlers/rest.go (ConnectResource) and get.go (getRequestOptions), kubernetes
pkg/apis/core/v1/zz_generated.conversion.go (v1.36).
"""

from __future__ import annotations

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.admission import chain
from kcm.runtime.apiserver.admission.attributes import CONNECT, Attributes
from kcm.runtime.apiserver.core.cluster import Cluster, RoutedRequest
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.errors.field_errors import quoted
from kcm.runtime.apiserver.registry.request_info import RequestInfo, is_set
from kcm.runtime.apiserver.registry.subresources import OF_RUNNING_CONTAINERS

_STREAMS = ("stdin", "stdout", "stderr", "tty")
_LARGEST_PORT = 65535


def admit_connect(cluster: Cluster, info: RequestInfo, call: RoutedRequest) -> None:
    """Run admission on a request that needs a running container, except one for a log. Raises StatusError."""
    kind = OF_RUNNING_CONTAINERS[call.definition.name][call.route.subresource].kind
    if kind is None:
        return
    if "dryRun" in call.query:
        raise status_errors.bad_request("dryRun is not supported")
    options = {"kind": kind.kind, "apiVersion": kind.version, **_options(info, kind.kind)}
    chain.admit_connect(cluster, Attributes(call, CONNECT, kind, call.route.name, options, None, {}))


def _options(info: RequestInfo, kind: str) -> Object:
    """Return the fields of the options, which upstream decodes from the query and the rest of the path."""
    if kind in ("PodAttachOptions", "PodExecOptions"):
        options: Object = {stream: True for stream in _STREAMS if is_set(info.query, stream)}
        if container := info.query.get("container"):
            options["container"] = container
        return {**options, "command": _values(info, "command") or None} if kind == "PodExecOptions" else options
    if kind == "PodPortForwardOptions":
        ports = [_port(port) for value in _values(info, "ports") for port in value.split(",")]
        return {"ports": ports} if ports else {}
    path = "".join(f"/{part}" for part in info.parts[3:])
    if info.path.endswith("/") and not path.endswith("/"):
        path += "/"
    return {"path": path} if path else {}


def _values(info: RequestInfo, name: str) -> list[str]:
    if name not in info.query:
        return []
    return [info.query[name], *(value for repeated, value in info.repeated if repeated == name)]


def _port(text: str) -> int:
    """Parse a port. Raises StatusError (400) with the text of Go's strconv.ParseUint."""
    is_number = text.isascii() and text.isdecimal()
    if is_number and len(text.lstrip("0")) <= len(str(_LARGEST_PORT)) and int(text) <= _LARGEST_PORT:
        return int(text)
    problem = "value out of range" if is_number else "invalid syntax"
    raise status_errors.bad_request(f"cannot convert to []int32: strconv.ParseUint: parsing {quoted(text)}: {problem}")
