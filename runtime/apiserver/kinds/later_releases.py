"""Kinds that a release after 1.36 serves by default, in versions or with rules that 1.36 does not have.

Their types are those of the version before. Source: k8s.io/api certificates/v1 and resource/v1 (July 2026), and the
release notes of v1.37.0-rc.0. Differences: PodCertificateRequests still accept pkixPublicKey and proofOfPossession, and
OpenAPI names the types after the version before.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from msgspec.structs import replace

from kcm.runtime.apiserver.kinds.autoscaling import horizontal_pod_autoscaler, horizontal_pod_autoscaler_v1
from kcm.runtime.apiserver.kinds.certificates import cluster_trust_bundle, pod_certificate_request
from kcm.runtime.apiserver.kinds.resource import device_taint_rule
from kcm.runtime.apiserver.kinds.storagemigration import storage_version_migration
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition


def _scaling_to_zero(autoscalers: ResourceDefinition) -> ResourceDefinition:
    """Accept minReplicas: 0, as the feature gate HPAScaleToZero does."""
    validate = partial(horizontal_pod_autoscaler.validate, lowest=0)
    validate_update = partial(horizontal_pod_autoscaler.validate_update, lowest=0)
    strategy = replace(autoscalers.strategy, validate=validate, validate_update=validate_update)
    return replace(autoscalers, strategy=strategy)


# By release, as in --emulated-version. They replace other versions of the same resource.
LATER_KINDS: Mapping[str, tuple[ResourceDefinition, ...]] = {
    "1.37": (
        replace(cluster_trust_bundle.RESOURCE, version="v1"),
        replace(pod_certificate_request.RESOURCE, version="v1"),
        replace(device_taint_rule.RESOURCE, version="v1"),
        replace(storage_version_migration.RESOURCE, version="v1"),
        _scaling_to_zero(horizontal_pod_autoscaler.RESOURCE),
        _scaling_to_zero(horizontal_pod_autoscaler_v1.RESOURCE),
    )
}


def with_later_kinds(kinds: tuple[ResourceDefinition, ...], release: str) -> tuple[ResourceDefinition, ...]:
    """Return the kinds that the emulated release serves. release: "" or a release without kinds of its own: `kinds`."""
    later = LATER_KINDS.get(release, ())
    replaced = {definition.storage for definition in later}
    every = (*(definition for definition in kinds if definition.storage not in replaced), *later)
    groups = list(dict.fromkeys(definition.group for definition in (*kinds, *later)))  # in the order of discovery
    return tuple(sorted(every, key=lambda definition: groups.index(definition.group)))
