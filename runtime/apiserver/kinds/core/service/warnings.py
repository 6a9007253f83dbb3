"""Warnings about Services: ignored and deprecated fields, non-canonical addresses.

Source: kubernetes pkg/api/service/warnings.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kcm.protocols.objects import Object, annotations_of
from kcm.runtime.apiserver.rules.warnings import of_address, of_range

_HINTS = "service.kubernetes.io/topology-aware-hints"
_EXTERNAL = "ExternalName"


def warnings_of_service(service: Object) -> Iterator[str]:
    spec = service["spec"]
    if _HINTS in annotations_of(service):
        yield f"annotation {_HINTS} is deprecated, please use service.kubernetes.io/topology-mode instead"
    type_, addresses = spec.get("type"), spec.get("clusterIPs") or []
    is_headless = addresses[:1] == ["None"]
    if not is_headless and type_ != _EXTERNAL:
        for i, address in enumerate(addresses):
            yield from of_address(address, f"spec.clusterIPs[{i}]")
    if is_headless:
        yield from _headless_warnings(spec)
    yield from _external_warnings(spec, is_headless=is_headless)
    if spec.get("trafficDistribution") == "PreferClose":
        yield 'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'


def _headless_warnings(spec: Mapping[str, Any]) -> Iterator[str]:
    for field in ("loadBalancerIP", "externalIPs"):
        if spec.get(field):
            yield f"spec.{field} is ignored for headless services"
    if spec.get("sessionAffinity") != "None":
        yield "spec.SessionAffinity is ignored for headless services"


def _external_warnings(spec: Mapping[str, Any], *, is_headless: bool) -> Iterator[str]:
    type_, addresses = spec.get("type"), spec.get("externalIPs") or ()
    for i, address in enumerate(addresses):
        yield from of_address(address, f"spec.externalIPs[{i}]")
    if addresses and not is_headless and type_ != _EXTERNAL:
        yield "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
    if spec.get("loadBalancerIP"):
        yield from of_address(spec["loadBalancerIP"], "spec.loadBalancerIP")
    for i, cidr in enumerate(spec.get("loadBalancerSourceRanges") or ()):
        yield from of_range(cidr.strip(), f"spec.loadBalancerSourceRanges[{i}]")
    if type_ == _EXTERNAL and addresses:
        yield f'spec.externalIPs is ignored when spec.type is "{_EXTERNAL}"'
    if type_ != _EXTERNAL and spec.get("externalName"):
        yield f'spec.externalName is ignored when spec.type is not "{_EXTERNAL}"'
