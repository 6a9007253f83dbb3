"""Validation of paths prefixed with a domain, as in a Job's `spec.managedBy` and an IngressClass' `spec.controller`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid, required
from kcm.runtime.apiserver.rules.names import dns_subdomain

_PATH = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")


def domain_prefixed_path(value: str, field: str) -> Iterator[FieldError]:
    """Yield errors for a value that is not a path prefixed with a domain.

    Source: apimachinery pkg/util/validation, IsDomainPrefixedPath.
    """
    if not value:
        yield required(field)
        return
    domain, slash, path = value.partition("/")
    if not (slash and domain and path):
        yield invalid(field, value, 'must be a domain-prefixed path (such as "acme.io/foo")')
        return
    for text in dns_subdomain(domain):
        yield invalid(field, domain, text)
    if not _PATH.fullmatch(path):
        rule = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')"
        yield invalid(field, path, rule)
