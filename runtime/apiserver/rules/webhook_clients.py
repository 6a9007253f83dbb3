"""Validation of WebhookClientConfigs and of the review versions that webhooks support.

Source: apiserver pkg/util/webhook/validation.go, kubernetes pkg/apis/admissionregistration/validation/validation.go
(validateAdmissionReviewVersions; v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid, required
from kcm.runtime.apiserver.rules.names import dns1035_label, dns_subdomain

REVIEW_VERSIONS = ("v1", "v1beta1")


def wrong_client(client: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    if (client.get("url") is None) == (client.get("service") is None):
        yield required(path, "exactly one of url or service is required")
    elif client.get("url") is not None:
        yield from _wrong_url(client["url"], f"{path}.url")
    else:
        yield from _wrong_service(client["service"], f"{path}.service")


def _wrong_url(text: str, path: str) -> Iterator[FieldError]:
    form = "; desired format: https://host[/path]"
    try:
        url = urlsplit(text)
    except ValueError as err:
        yield required(path, f"url must be a valid URL: {err}{form}")
        return
    if url.scheme != "https":
        yield invalid(path, url.scheme, f"'https' is the only allowed URL scheme{form}")
    user, _, host = url.netloc.rpartition("@")
    if not host:
        yield invalid(path, host, f"host must be specified{form}")
    if user:
        yield invalid(path, user, "user information is not permitted in the URL")
    if url.fragment:
        yield invalid(path, url.fragment, "fragments are not permitted in the URL")
    if url.query:
        yield invalid(path, url.query, "query parameters are not permitted in the URL")


def _wrong_service(service: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    """Validate a service reference. As upstream, errors for a missing name and namespace have each other's path."""
    if not service.get("namespace"):
        yield required(f"{path}.name")
    if not service.get("name"):
        yield required(f"{path}.namespace")
    port, steps = service.get("port", 443), service.get("path")
    if not 1 <= port <= 65535:
        yield invalid(f"{path}.port", port, "port is not valid: must be between 1 and 65535, inclusive")
    if steps in (None, "", "/"):
        return
    if steps == "//":
        yield invalid(f"{path}.path", steps, "segment[0] may not be empty")
        return
    if not steps.startswith("/"):
        yield invalid(f"{path}.path", steps, "must start with a '/'")
    for i, step in enumerate(steps[1:].removesuffix("/").split("/")):
        wrong = (
            [f"segment[{i}]: {text}" for text in dns_subdomain(step)] if step else [f"segment[{i}] may not be empty"]
        )
        yield from (invalid(f"{path}.path", steps, text) for text in wrong)


def wrong_review_versions(versions: Sequence[str], path: str, missing: str = "") -> Iterator[FieldError]:
    """Validate review versions. missing: error text for an empty list."""
    if not versions:
        yield required(path, missing)
        return
    seen: set[str] = set()
    for i, version in enumerate(versions):
        if version in seen:
            yield invalid(f"{path}[{i}]", version, "duplicate version")
        else:
            yield from (invalid(f"{path}[{i}]", version, text) for text in dns1035_label(version))
        seen.add(version)
    if not set(REVIEW_VERSIONS) & set(versions):
        yield invalid(path, versions, f"must include at least one of {', '.join(REVIEW_VERSIONS)}")
