"""Kinds of resource names: "cpu", "requests.memory", "count/secrets", "example.com/gpu".

Source: kubernetes v1.36 pkg/apis/core/helper/helpers.go, pkg/apis/core/v1/helper/helpers.go,
pkg/quota/v1/evaluator/core/pods.go.
"""

from __future__ import annotations

import re

REQUESTS = "requests."
LIMITS = "limits."
HUGE_PAGES = "hugepages-"
NATIVE = "kubernetes.io/"
DEVICE_CLASS = "deviceclass.resource.kubernetes.io/"  # with a class: the resource of its devices in a container

_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def count_of(resource: str) -> str:
    """Return the resource name of an object count. resource: Resource.name."""
    return f"count/{resource}"


def is_native(name: str) -> bool:
    """Report whether the name has no prefix, or one of kubernetes.io, as upstream's IsNativeResource."""
    return "/" not in name or NATIVE in name


def is_extended(name: str) -> bool:
    """Report whether this is an extended resource: "example.com/gpu"."""
    return not is_native(name) and not name.startswith(REQUESTS) and _is_qualified(REQUESTS + name)


def is_counted_in_pods(name: str) -> bool:
    """Report whether containers request it, and a quota limits it as `requests.` and its name."""
    return is_extended(name) or name.startswith(DEVICE_CLASS)


def is_request_of_extended(name: str) -> bool:
    """Report whether a quota limits an extended resource by this name: "requests.example.com/gpu"."""
    return name.startswith(REQUESTS) and (not is_native(name) or name.startswith(REQUESTS + DEVICE_CLASS))


def is_huge_pages(name: str) -> bool:
    return name.startswith(HUGE_PAGES)


def is_quota_of_huge_pages(name: str) -> bool:
    return name.startswith((HUGE_PAGES, REQUESTS + HUGE_PAGES))


def _is_qualified(name: str) -> bool:
    prefix, slash, local = name.rpartition("/")
    if slash and not (len(prefix) <= 253 and _SUBDOMAIN.fullmatch(prefix)):
        return False
    return len(local) <= 63 and _NAME.fullmatch(local) is not None
