"""Validation of a pod's DNS configuration, host aliases and hostname override.

Source: kubernetes pkg/apis/core/validation/validation.go, validatePodDNSConfig, ValidateHostAliases (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kcm.runtime.apiserver.errors.field_errors import FieldError, forbidden, invalid, required, too_long
from kcm.runtime.apiserver.rules.ip_addresses import validate_ip
from kcm.runtime.apiserver.rules.names import dns_subdomain

_LONGEST_HOSTNAME = 64
_MOST_SERVERS, _MOST_SEARCHES, _MOST_CHARACTERS = 3, 32, 2048
_with_underscore = re.compile("_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*")

Part = Mapping[str, Any]


def wrong_resolver(spec: Part, field: str) -> Iterator[FieldError]:
    config = spec.get("dnsConfig")
    servers = (config or {}).get("nameservers") or []
    if spec.get("dnsPolicy") == "None":
        if config is None:
            yield required(field, "must provide `dnsConfig` when `dnsPolicy` is None")
            return
        if not servers:
            detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            yield required(f"{field}.nameservers", detail)
            return
    if config is None:
        return
    if len(servers) > _MOST_SERVERS:
        yield invalid(f"{field}.nameservers", servers, f"must not have more than {_MOST_SERVERS} nameservers")
    for i, server in enumerate(servers):
        yield from validate_ip(server, f"{field}.nameservers[{i}]")
    searches = config.get("searches") or []
    if len(searches) > _MOST_SEARCHES:
        yield invalid(f"{field}.searches", searches, f"must not have more than {_MOST_SEARCHES} search paths")
    if len(" ".join(searches)) > _MOST_CHARACTERS:
        detail = f"must not have more than {_MOST_CHARACTERS} characters (including spaces) in the search list"
        yield invalid(f"{field}.searches", searches, detail)
    for i, search in enumerate(searches):
        if search != ".":
            shown = search.removesuffix(".")
            for text in _search_problems(shown):
                yield invalid(f"{field}.searches[{i}]", shown, text)
    for i, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            yield required(f"{field}.options[{i}]", "must not be empty")


def _search_problems(name: str) -> list[str]:
    if _with_underscore.fullmatch(name):
        return []
    label = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
    rule = (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', "
        "and must start and end with an alphanumeric character"
    )
    return [f"{rule} (e.g. 'example.com', regex used for validation is '{label}(\\.{label})*')"]


def wrong_aliases(aliases: Sequence[Part], field: str) -> Iterator[FieldError]:
    for i, alias in enumerate(aliases):
        yield from validate_ip(alias.get("ip") or "", f"{field}[{i}].ip")
        for j, name in enumerate(alias.get("hostnames") or ()):
            for text in dns_subdomain(name):
                yield invalid(f"{field}[{i}].hostnames[{j}]", name, text)


def wrong_hostname(spec: Part, field: str) -> Iterator[FieldError]:
    """Validate spec.hostnameOverride of a pod."""
    name = spec["hostnameOverride"]
    for other in ("setHostnameAsFQDN", "hostNetwork"):
        if spec.get(other):
            yield forbidden(field, f"may not be specified when {other} is true")
    if len(name) > _LONGEST_HOSTNAME:
        yield too_long(field, _LONGEST_HOSTNAME)
    yield from (invalid(field, name, text) for text in dns_subdomain(name))
