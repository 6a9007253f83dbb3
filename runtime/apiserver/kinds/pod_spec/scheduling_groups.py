"""The pod field schedulingGroup, which is kept only if the server serves PodGroups.

Upstream keeps the field if the feature gate GenericWorkload is on.

Source: kubernetes pkg/api/pod/util.go, dropDisabledPodSchedulingGroupFields (v1.36). Difference: it is kept in pods and
Jobs only, not in the pod templates of other workloads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition

FIELD, POD_GROUPS = "schedulingGroup", "podgroups.scheduling.k8s.io"


def _of_pod(pod: Object) -> Object:
    return pod.get("spec") or {}


def _of_job(job: Object) -> Object:
    return ((job.get("spec") or {}).get("template") or {}).get("spec") or {}


_SPECS: dict[str, Callable[[Object], Object]] = {"pods": _of_pod, "jobs.batch": _of_job}


def with_scheduling_groups(definitions: Iterable[ResourceDefinition]) -> tuple[ResourceDefinition, ...]:
    """Return the definitions, with pods and Jobs that keep schedulingGroup if the definitions contain PodGroups."""
    given = tuple(definitions)
    if all(definition.name != POD_GROUPS for definition in given):
        return given
    return tuple(
        _keeping(definition, _SPECS[definition.name]) if definition.name in _SPECS else definition
        for definition in given
    )


def _keeping(definition: ResourceDefinition, spec_of: Callable[[Object], Object]) -> ResourceDefinition:
    """Return a variant of the definition whose hooks do not remove schedulingGroup from the pod spec.

    spec_of: returns the pod spec of an object
    """
    strategy = definition.strategy

    def keeping(hook: Callable[[Object], None]) -> Callable[[Object], None]:
        def changed(obj: Object) -> None:
            group = spec_of(obj).get(FIELD)
            hook(obj)
            if group is not None:
                spec_of(obj)[FIELD] = group

        return changed

    kept = replace(strategy, set_defaults=keeping(strategy.set_defaults), canonicalize=keeping(strategy.canonicalize))
    return replace(definition, strategy=kept)
