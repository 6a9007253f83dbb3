"""Addresses of webhooks: their URL, or a ready endpoint of their Service.

A webhook in a hollow pod is not called: nothing runs in the pod, and its address may belong to another program.
Instead, the annotation WEBHOOK (kcm.protocols.hollow_nodes) of the Service, the pod or the node, in this order, is
"admit" or the address of a program that serves the webhook.

Source: apiserver pkg/util/webhook/client.go, pkg/util/proxy/proxy.go, ResolveEndpoint (v1.36).
Differs from upstream: the first ready endpoint is used instead of a random one. Upstream uses the cluster IP unless
--enable-aggregator-routing is set; here cluster IPs are not routed.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from kcm.protocols.hollow_nodes import WEBHOOK, is_hollow, is_hollow_address
from kcm.protocols.objects import Object, annotations_of, decode_object, labels_of, namespace_of
from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.errors.field_errors import quoted
from kcm.runtime.apiserver.storage.state import to_read

ADMIT = "admit"  # value of the annotation WEBHOOK: do not call the webhook, and admit or convert everything
_ALLOCATED = "ipaddresses.networking.k8s.io"
_HOST = re.compile("[0-9A-Za-z.:_-]+")
SLICES, SERVICE_NAME = "endpointslices.discovery.k8s.io", "kubernetes.io/service-name"
_SERVICE_TYPES = ("ClusterIP", "LoadBalancer", "NodePort")


class Address(NamedTuple):
    """Address of a webhook."""

    url: str  # without a query
    at: tuple[str, int] | None = None  # (host, port) to connect to; None: the URL's
    admits: bool = False  # the webhook is not called, and admits or converts everything


class NoAddressError(Exception):
    """Webhook without an address that can be called. url: URL of the webhook, or "" if it is unknown."""

    def __init__(self, text: str, url: str = "") -> None:
        super().__init__(text)
        self.url = url


def address(cluster: Cluster, client: Mapping[str, Any]) -> Address:
    """Return the address of a webhook. client: its WebhookClientConfig. Raises NoAddressError."""
    service = client.get("service")
    if service is None:
        parts = urlsplit(client.get("url") or "")
        if not parts.netloc:
            raise NoAddressError("webhook configuration must have either service or URL")
        url = f"{parts.scheme}://{parts.netloc}{_clean(parts.path)}"
        problem = _why_unreachable(cluster, parts.hostname or "")
        if problem:
            raise NoAddressError(problem, url)
        return Address(url)
    namespace, name, port = service.get("namespace") or "", service.get("name") or "", service.get("port") or 443
    url = f"https://{name}.{namespace}.svc:{port}{_clean(service.get('path') or '')}"
    try:
        found = _endpoint(cluster, namespace, name, port)
        return Address(url, admits=True) if found is None else Address(url, found)
    except NoAddressError as err:
        raise NoAddressError(str(err), url) from None


def _clean(path: str) -> str:
    """Return the path that client-go requests: without empty and relative segments, and without a slash at the end.

    Source: client-go rest/request.go, NewRequest (v1.36).
    """
    return posixpath.normpath(f"/{path.lstrip('/')}")


def _endpoint(cluster: Cluster, namespace: str, name: str, port: int) -> tuple[str, int] | None:
    """Return (host, port) of a ready endpoint of a Service; None if the webhook is annotated to admit everything.

    port: port of the Service. Raises NoAddressError.
    """
    record = cluster.state.get("services", f"{namespace}/{name}")
    if record is None:
        raise NoAddressError(f"service {quoted(name)} not found")
    service = decode_object(record.raw)
    spec = service.get("spec") or {}
    if spec.get("type") not in _SERVICE_TYPES:
        raise NoAddressError(f"unsupported service type {quoted(spec.get('type') or '')}")
    ports = {entry.get("port"): entry.get("name") or "" for entry in spec.get("ports") or ()}
    if port not in ports:
        raise NoAddressError(f"no service port {port} found for service {quoted(name)}")
    hollow: tuple[Object, int] | None = None
    for endpoint, number in _ready_endpoints(cluster, namespace, name, ports[port]):
        if not is_hollow_endpoint(cluster, endpoint):
            return str(endpoint["addresses"][0]), number
        hollow = hollow or (endpoint, number)
    annotated = _annotated_address(cluster, service, None if hollow is None else hollow[0])
    if annotated:
        return None if annotated == ADMIT else _host_and_port(annotated)
    if hollow is None:
        raise NoAddressError(f"no endpoints available for service {quoted(name)}")
    raise NoAddressError(
        f"the pods of service {quoted(f'{namespace}/{name}')} are hollow and serve no requests "
        f"(to admit everything, annotate the service with {WEBHOOK}={ADMIT})"
    )


def _ready_endpoints(cluster: Cluster, namespace: str, service: str, port: str) -> Iterator[tuple[Object, int]]:
    """Yield (endpoint, port number) for the ready endpoints of a Service. port: name of the port."""
    for found in slices_of(cluster, namespace, service):
        number = next(
            (port_entry.get("port") for port_entry in found.get("ports") or () if port_entry.get("name") == port), None
        )
        for endpoint in found.get("endpoints") or () if number else ():
            if (endpoint.get("conditions") or {}).get("ready", True):
                yield endpoint, int(number or 0)


def is_hollow_endpoint(cluster: Cluster, endpoint: Object) -> bool:
    """Report whether an endpoint of an EndpointSlice is a hollow pod, or a pod whose node does not exist."""
    node = endpoint.get("nodeName")
    if not node:
        return _is_in_hollow_range(cluster, endpoint["addresses"][0])
    record = cluster.state.get("nodes", node)
    return record is None or is_hollow(to_read(record.raw))


def _annotated_address(cluster: Cluster, service: Object, endpoint: Object | None) -> str:
    """Return the value of the annotation WEBHOOK: the address of a program that serves a webhook, or "admit".

    It is read from the Service, or from the pod or node of a hollow endpoint. Returns "" if it is missing.
    """
    places = [service]
    if endpoint is not None:
        pod = (endpoint.get("targetRef") or {}).get("name") or ""
        keys = (("pods", f"{namespace_of(service)}/{pod}"), ("nodes", endpoint.get("nodeName") or ""))
        records = (cluster.state.get(storage, key) for storage, key in keys)
        places += [to_read(record.raw) for record in records if record is not None]
    return next((value for place in places if (value := annotations_of(place).get(WEBHOOK))), "")


def _host_and_port(annotated: str) -> tuple[str, int]:
    """Parse the value HOST:PORT of the annotation WEBHOOK. Raises NoAddressError if it is malformed."""
    host, _, port = annotated.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not _HOST.fullmatch(host) or not port.isdecimal() or not 0 < int(port) < 65536:
        raise NoAddressError(f'annotation {WEBHOOK} must be "{ADMIT}" or HOST:PORT, got {quoted(annotated)}')
    return host, int(port)


def _why_unreachable(cluster: Cluster, host: str) -> str:
    """Return why a host cannot be called: it is a cluster IP, or an IP address of hollow pods; "" if it can."""
    address = _parsed_ip(host)
    if address is None or address.is_loopback:
        return ""
    if cluster.state.get(_ALLOCATED, str(address)) is not None:
        return f"{address} is a cluster IP and cannot be called; specify the service instead"
    if _is_in_hollow_range(cluster, host):
        return f"{address} is an address of hollow nodes and pods, which serve no requests"
    return ""


def _is_in_hollow_range(cluster: Cluster, text: str) -> bool:
    """Report whether a text is an IP address in the ranges of hollow nodes and their pods."""
    address = _parsed_ip(text)
    if address is None:
        return False
    return is_hollow_address(address) or any(address in ip_network(cidr) for cidr in _hollow_ranges(cluster))


def _parsed_ip(text: str) -> IPv4Address | IPv6Address | None:
    """Parse an IP address; an IPv4-mapped IPv6 address becomes an IPv4 address. Returns None for a host name."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def _hollow_ranges(cluster: Cluster) -> Iterator[str]:
    for record in cluster.state.collection("nodes").records.values():
        node = to_read(record.raw)
        if is_hollow(node):
            yield from (node.get("spec") or {}).get("podCIDRs") or ()


def slices_of(cluster: Cluster, namespace: str, service: str) -> Iterator[Object]:
    collection = cluster.state.collection(SLICES)
    for key in collection.keys(namespace):
        found = decode_object(collection.records[key].raw)
        if labels_of(found).get(SERVICE_NAME) == service:
            yield found
