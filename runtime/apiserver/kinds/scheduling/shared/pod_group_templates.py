"""Defaults and validation of the fields shared by PodGroups and the podGroupTemplates of Workloads.

Fields of the feature gates TopologyAwareWorkloadScheduling, DRAWorkloadResourceClaims and WorkloadAwarePreemption are
removed, as by upstream while these gates are off.

Source: kubernetes pkg/apis/scheduling/v1alpha2/zz_generated.validations.go,
pkg/registry/scheduling/podgroup/strategy.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid, required
from kcm.runtime.apiserver.rules.names import dns_label

GROUP, VERSION = "scheduling.k8s.io", "v1alpha2"
_GATED = ("schedulingConstraints", "resourceClaims", "disruptionMode", "priorityClassName", "priority")


def drop_gated_fields(template: Object) -> None:
    for name in _GATED:
        template.pop(name, None)


def name_problems(name: str) -> list[str]:
    """Return the error texts for the name of a template; [] if it is valid.

    The texts are those for DNS labels, with "bytes" instead of "characters", as upstream's generated validation has.
    """
    return [
        text.replace("characters", "bytes") if text.startswith("must be no more") else text for text in dns_label(name)
    ]


def validate_scheduling_policy(policy: Object, path: str) -> Iterator[FieldError]:
    members = [name for name in ("basic", "gang") if policy.get(name) is not None]
    if not members:
        yield invalid(path, "", "must specify one of: `basic`, `gang`")
    elif len(members) > 1:
        yield invalid(path, f"{{{', '.join(members)}}}", "must specify exactly one of: `basic`, `gang`")
    if "gang" in members:
        count = policy["gang"].get("minCount") or 0
        if count == 0:
            yield required(f"{path}.gang.minCount", "")
        elif count < 1:
            yield invalid(f"{path}.gang.minCount", count, "must be greater than or equal to 1")
