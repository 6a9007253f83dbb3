"""Warnings shared by several kinds: renamed node labels, non-canonical addresses, names.

Source: kubernetes pkg/api/node/util.go, apimachinery pkg/util/validation/ip.go (GetWarningsForIP, GetWarningsForCIDR),
the strategies of pkg/registry/apps (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import ip_address, ip_network
from typing import Any

from kcm.protocols.objects import Object
from kcm.protocols.quantities import milli_value
from kcm.runtime.apiserver.rules.names import dns_label, label_value

NODE_LABELS = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}

FRACTIONS = ("m", "u", "n")  # suffixes of canonical quantities that are not integers

Part = Mapping[str, Any]


def of_node_term(term: Part, field: str, *, values: bool = False) -> Iterator[str]:
    """Yield warnings about deprecated node labels in a NodeSelectorTerm.

    values: whether to warn of values that are invalid as label values too.
    """
    for i, expression in enumerate(term.get("matchExpressions") or ()):
        if key := NODE_LABELS.get(expression.get("key") or ""):
            yield f"{field}.matchExpressions[{i}].key: {expression['key']} is {key}"
        if values:
            yield from _of_values(expression, f"{field}.matchExpressions[{i}]")


def _of_values(expression: Part, field: str) -> Iterator[str]:
    for i, value in enumerate(expression.get("values") or ()):
        yield from (f"{field}.values[{i}]: {value} is invalid, {text}" for text in label_value(value))


def of_address(address: str, field: str) -> Iterator[str]:
    """Yield a warning if a valid IP address is not in its canonical form."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return
    if parsed.version == 6 and parsed.ipv4_mapped is not None:
        yield f'{field}: non-standard IP address "{address}" is invalid: use "{parsed.ipv4_mapped}"'
    elif parsed.version == 6 and str(parsed) != address:
        yield f'{field}: IPv6 address "{address}" should be in RFC 5952 canonical format ("{parsed}")'


def of_range(cidr: str, field: str) -> Iterator[str]:
    """Yield a warning if a valid CIDR is not in its canonical form."""
    try:
        parsed, address = ip_network(cidr, strict=False), ip_address(cidr.partition("/")[0])
    except ValueError:
        return
    if address != parsed.network_address:
        host_cidr = f"{address}/{parsed.max_prefixlen}"
        yield f'{field}: CIDR value "{cidr}" is ambiguous in this context (should be "{parsed}" or "{host_cidr}"?)'
    elif parsed.version == 6 and str(parsed) != cidr:
        yield f'{field}: IPv6 CIDR value "{cidr}" should be in RFC 5952 canonical format ("{parsed}")'


def of_bytes(amounts: Part | None, names: tuple[str, ...], field: str) -> Iterator[str]:
    """Yield warnings about amounts with fractions of a byte."""
    for name in names:
        amount = (amounts or {}).get(name) or ""
        if amount[-1:] in FRACTIONS and milli_value(amount) % 1000:
            yield f'{field}[{name}]: fractional byte value "{amount}" is invalid, must be an integer'


def of_claim_spec(spec: Part, field: str) -> Iterator[str]:
    resources = spec.get("resources") or {}
    for part in ("requests", "limits"):
        yield from of_bytes(resources.get(part), ("storage",), f"{field}.resources.{part}")


def of_hostname(obj: Object, used: str) -> Iterator[str]:
    """Yield a warning if an object's name is not a DNS label although it is used in hostnames.

    used: where the name is used, as the warning states it.
    """
    if problems := dns_label(obj["metadata"].get("name") or ""):
        shown = " ".join(problems)
        yield (
            f"metadata.name: this is used in {used}, which can result in surprising behavior; "
            f"a DNS label is recommended: [{shown}]"
        )
