"""Where a webhook is called: by its URL, or by a ready endpoint of its Service.

Source: apiserver pkg/util/webhook/client.go, pkg/util/proxy/proxy.go, ResolveEndpoint (v1.36). Differs: the first ready
endpoint is taken, in the place of any. Upstream goes by the cluster IP unless --enable-aggregator-routing is given;
here none of these leads anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from protocols.objects import Object, decode_object, labels_of
from runtime.apiserver.core.cluster import Cluster
from runtime.apiserver.errors.field_errors import quoted

SLICES, SERVICE_NAME = "endpointslices.discovery.k8s.io", "kubernetes.io/service-name"
_REACHED = ("ClusterIP", "LoadBalancer", "NodePort")


class Address(NamedTuple):
    """url: without a query. at: (host, port) to connect to; None: the URL's."""

    url: str
    at: tuple[str, int] | None = None


class NoAddressError(Exception):
    """Nothing is to be called. url: what would be; the text says why not."""

    def __init__(self, text: str, url: str = "") -> None:
        super().__init__(text)
        self.url = url


def address(cluster: Cluster, client: Mapping[str, Any]) -> Address:
    """client: a WebhookClientConfig. Raises NoAddressError."""
    service = client.get("service")
    if service is None:
        parts = urlsplit(client.get("url") or "")
        if not parts.netloc:
            raise NoAddressError("webhook configuration must have either service or URL")
        return Address(f"{parts.scheme}://{parts.netloc}{parts.path or '/'}")
    namespace, name, port = service.get("namespace") or "", service.get("name") or "", service.get("port") or 443
    path = service.get("path") or "/"
    url = f"https://{name}.{namespace}.svc:{port}{path if path.startswith('/') else f'/{path}'}"
    try:
        return Address(url, _endpoint(cluster, namespace, name, port))
    except NoAddressError as err:
        raise NoAddressError(str(err), url) from None


def _endpoint(cluster: Cluster, namespace: str, name: str, port: int) -> tuple[str, int]:
    """Raises NoAddressError."""
    record = cluster.state.get("services", f"{namespace}/{name}")
    if record is None:
        raise NoAddressError(f"service {quoted(name)} not found")
    spec = decode_object(record.raw).get("spec") or {}
    if spec.get("type") not in _REACHED:
        raise NoAddressError(f"unsupported service type {quoted(spec.get('type') or '')}")
    ports = {one.get("port"): one.get("name") or "" for one in spec.get("ports") or ()}
    if port not in ports:
        raise NoAddressError(f"no service port {port} found for service {quoted(name)}")
    for one in _slices(cluster, namespace, name):
        number = next((each.get("port") for each in one.get("ports") or () if each.get("name") == ports[port]), None)
        for endpoint in one.get("endpoints") or () if number else ():
            if (endpoint.get("conditions") or {}).get("ready", True):
                return str(endpoint["addresses"][0]), int(number or 0)
    raise NoAddressError(f"no endpoints available for service {quoted(name)}")


def _slices(cluster: Cluster, namespace: str, service: str) -> Iterator[Object]:
    collection = cluster.state.collection(SLICES)
    for key in collection.keys(namespace):
        found = decode_object(collection.records[key].raw)
        if labels_of(found).get(SERVICE_NAME) == service:
            yield found
