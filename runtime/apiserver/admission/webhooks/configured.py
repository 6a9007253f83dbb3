"""Stored webhooks in calling order: by name of the configuration, then by position in it.

Source: apiserver pkg/admission/configuration/{mutating,validating}_webhook_manager.go (v1.36); the defaults are
those of pkg/apis/admissionregistration/v1/defaults.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from msgspec import Struct

from kcm.protocols.admission_plugins import MUTATING_WEBHOOK, VALIDATING_WEBHOOK
from kcm.protocols.objects import Object, decode_object, name_of
from kcm.runtime.apiserver.core.cluster import Cluster

MUTATING = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
VALIDATING = "validatingwebhookconfigurations.admissionregistration.k8s.io"
_PLUGINS = {MUTATING: MUTATING_WEBHOOK, VALIDATING: VALIDATING_WEBHOOK}
EQUIVALENT, IGNORE, IF_NEEDED = "Equivalent", "Ignore", "IfNeeded"


class Webhook(Struct, frozen=True, kw_only=True):
    """Webhook of a stored configuration, with defaults set."""

    configuration: str
    number: int  # position in its configuration
    name: str
    client: Mapping[str, Any]  # the clientConfig
    rules: tuple[Mapping[str, Any], ...]
    ignores_failures: bool
    matches_equivalent: bool
    namespace_selector: Mapping[str, Any]
    object_selector: Mapping[str, Any]
    side_effects: str
    seconds: float  # timeout of a call
    versions: tuple[str, ...]  # accepted versions of AdmissionReview
    reinvoked_if_needed: bool  # reinvocationPolicy IfNeeded
    conditions: tuple[Mapping[str, Any], ...]  # the matchConditions

    @property
    def place(self) -> tuple[str, int]:
        """Unique key of the webhook: configuration and position."""
        return self.configuration, self.number


def are_configured(cluster: Cluster, kind: str) -> bool:
    """Report whether webhooks of a type (MUTATING or VALIDATING) exist and their plugin is enabled."""
    return bool(cluster.state.collection(kind).records) and _PLUGINS[kind] in cluster.settings.plugins


def webhooks(cluster: Cluster, kind: str) -> tuple[Webhook, ...]:
    return _read(tuple(cluster.state.collection(kind).raw_objects()))


@lru_cache(maxsize=4)
def _read(configurations: tuple[bytes, ...]) -> tuple[Webhook, ...]:
    return tuple(
        _webhook(name_of(configuration), number, hook)
        for configuration in map(decode_object, configurations)
        for number, hook in enumerate(configuration.get("webhooks") or ())
    )


def _webhook(configuration: str, number: int, hook: Object) -> Webhook:
    return Webhook(
        configuration=configuration,
        number=number,
        name=hook.get("name") or "",
        client=hook.get("clientConfig") or {},
        rules=tuple(hook.get("rules") or ()),
        ignores_failures=hook.get("failurePolicy") == IGNORE,
        matches_equivalent=hook.get("matchPolicy", EQUIVALENT) == EQUIVALENT,
        namespace_selector=hook.get("namespaceSelector") or {},
        object_selector=hook.get("objectSelector") or {},
        side_effects=hook.get("sideEffects") or "",
        seconds=float(hook.get("timeoutSeconds") or 10),
        versions=tuple(hook.get("admissionReviewVersions") or ()),
        reinvoked_if_needed=hook.get("reinvocationPolicy") == IF_NEEDED,
        conditions=tuple(hook.get("matchConditions") or ()),
    )
