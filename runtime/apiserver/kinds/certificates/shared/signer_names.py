"""Validation of the names of certificate signers, such as "example.com/name".

Source: kubernetes pkg/apis/core/validation/names.go (v1.36).
"""

from __future__ import annotations

from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid, quoted, required, too_long
from kcm.runtime.apiserver.rules.names import dns_label, dns_subdomain

LONGEST_DOMAIN, LONGEST_NAME = 253, 571


def is_kubernetes_signer(name: str) -> bool:
    domain = name.partition("/")[0]
    return domain == "kubernetes.io" or domain.endswith(".kubernetes.io")


def validate_signer_name(field: str, name: str) -> list[FieldError]:
    if not name:
        return [required(field)]
    parts = name.split("/")
    if len(parts) != 2:
        form = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        return [invalid(field, name, form)]
    domain, path = parts
    errors = [too_long(field, LONGEST_DOMAIN)] if len(domain) > LONGEST_DOMAIN else []
    labels = domain.split(".")
    for label in labels:
        if problems := dns_label(label):
            errors += [invalid(field, domain, f"validating label {quoted(label)}: {problem}") for problem in problems]
            break
    if len(labels) < 2:
        errors.append(invalid(field, domain, "should be a domain with at least two segments separated by dots"))
    for label in path.split("."):
        if problems := dns_subdomain(label):
            errors += [invalid(field, path, f"validating label {quoted(label)}: {problem}") for problem in problems]
            break
    if len(name) > LONGEST_NAME:
        errors.append(too_long(field, LONGEST_NAME))
    return errors
