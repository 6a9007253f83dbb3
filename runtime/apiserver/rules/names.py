"""Validation of names, label keys and label values.

The rules are in kcm.protocols.names, so that the CEL library can use them too.
"""

from __future__ import annotations

from kcm.protocols.names import (
    NameRule,
    dns1035_label,
    dns_label,
    dns_subdomain,
    label_key,
    label_value,
    path_segment,
    too_many_characters,
    wildcard_subdomain,
)

__all__ = [
    "NameRule",
    "dns1035_label",
    "dns_label",
    "dns_subdomain",
    "label_key",
    "label_value",
    "path_segment",
    "too_many_characters",
    "wildcard_subdomain",
]
