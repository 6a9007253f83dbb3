"""Defaults and validation of the fields shared by PodGroups and the podGroupTemplates of Workloads.

Fields of the feature gates TopologyAwareWorkloadScheduling and WorkloadAwarePreemption are removed, as by upstream
while these gates are off. Difference: resourceClaims are kept, as with the gate DRAWorkloadResourceClaims.

Source: kubernetes pkg/apis/scheduling/v1alpha2/zz_generated.validations.go,
pkg/registry/scheduling/podgroup/strategy.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, duplicate, invalid, required, too_many
from kcm.runtime.apiserver.rules.names import dns_label, dns_subdomain

MOST_CLAIMS = 4
_SOURCES = ("resourceClaimName", "resourceClaimTemplateName")
GROUP, VERSION = "scheduling.k8s.io", "v1alpha2"
_GATED = ("schedulingConstraints", "disruptionMode", "priorityClassName", "priority")


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


def validate_claims(claims: Sequence[Object], path: str) -> Iterator[FieldError]:
    """Validate the resourceClaims of a PodGroup or of a template."""
    if len(claims) > MOST_CLAIMS:
        yield too_many(path, len(claims), MOST_CLAIMS)
        return
    seen: set[str] = set()
    for number, claim in enumerate(claims):
        at, name = f"{path}[{number}]", claim.get("name") or ""
        if name in seen:
            yield duplicate(at, {field: claim[field] for field in ("name", *_SOURCES) if field in claim})
        seen.add(name)
        sources = [source for source in _SOURCES if claim.get(source) is not None]
        one_of = "one of: `resourceClaimName`, `resourceClaimTemplateName`"
        if not sources:
            yield invalid(at, "", f"must specify {one_of}")
        elif len(sources) > 1:
            yield invalid(at, f"{{{', '.join(sources)}}}", f"must specify exactly {one_of}")
        if not name:
            yield required(f"{at}.name", "")
        else:
            yield from (invalid(f"{at}.name", name, text) for text in name_problems(name))
        for source in sources:
            yield from (invalid(f"{at}.{source}", claim[source], text) for text in long_name_problems(claim[source]))


def long_name_problems(name: str) -> list[str]:
    """Return the error texts for the name of a claim, with "bytes" like name_problems."""
    return [
        text.replace("characters", "bytes") if text.startswith("must be no more") else text
        for text in dns_subdomain(name)
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
