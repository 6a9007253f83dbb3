"""PodGroups and Workloads, with the feature gates GenericWorkload and DRAWorkloadResourceClaims."""

from __future__ import annotations

from typing import Any

from tests.runtime.apiserver.contracts.kinds.play import Kind, Table

HERE = "/apis/scheduling.k8s.io/v1alpha2/namespaces/contract"
TIME = "2026-01-01T00:00:00Z"
CLAIM = {"name": "gpu", "resourceClaimName": "claim"}


def _spec(**fields: Any) -> dict[str, Any]:
    return {"spec": fields}


def _condition(type_: str = "PodGroupScheduled", **fields: Any) -> dict[str, Any]:
    condition = {"type": type_, "status": "True", "reason": "Tested", "lastTransitionTime": TIME, "message": ""}
    return {**condition, **fields}


def _conditions(*conditions: dict[str, Any]) -> dict[str, Any]:
    return {"status": {"conditions": list(conditions)}}


def _claims(*claims: dict[str, Any]) -> dict[str, Any]:
    return {"resourceClaims": list(claims)}


def _topology(*constraints: dict[str, Any]) -> dict[str, Any]:
    return {"schedulingConstraints": {"topology": list(constraints)}}


# Fields of PodGroups that the templates of Workloads also have.
SHARED: dict[str, dict[str, Any]] = {
    "no policy": {"schedulingPolicy": None},
    "an empty policy": {"schedulingPolicy": {"gang": None}},
    "a basic policy": {"schedulingPolicy": {"gang": None, "basic": {}}},
    "two policies": {"schedulingPolicy": {"basic": {}}},
    "no count": {"schedulingPolicy": {"gang": {"minCount": None}}},
    "a negative count": {"schedulingPolicy": {"gang": {"minCount": -1}}},
    "a topology": _topology({"key": "zone"}),
    "no topology": _topology(),
    "an odd key": _topology({"key": "a b/"}),
    "an empty key": _topology({"key": ""}),
    "two topologies": _topology({"key": "zone"}, {"key": "rack"}),
    "a claim": _claims(CLAIM),
    "a template": _claims({"name": "gpu", "resourceClaimTemplateName": "template"}),
    "no source": _claims({"name": "gpu"}),
    "two sources": _claims({**CLAIM, "resourceClaimTemplateName": "template"}),
    "no name": _claims({"resourceClaimName": "claim"}),
    "odd names": _claims({"name": "G_", "resourceClaimName": "C_"}),
    "an odd template": _claims({"name": "gpu", "resourceClaimTemplateName": "T_"}),
    "an empty claim": _claims({"name": "gpu", "resourceClaimName": ""}),
    "a long name": _claims({"name": "g" * 64, "resourceClaimName": "c" * 254}),
    "a claim twice": _claims(CLAIM, CLAIM),
    "four claims": _claims(*({**CLAIM, "name": f"c{i}"} for i in range(4))),
    "five claims": _claims(*({**CLAIM, "name": f"c{i}"} for i in range(5))),
    "disrupted as a whole": {"disruptionMode": "PodGroup"},
    "an odd disruption": {"disruptionMode": "Never"},
    "an empty disruption": {"disruptionMode": ""},
    "an unknown priority class": {"priorityClassName": "high"},
    "a system's priority class": {"priorityClassName": "system-node-critical"},
    "an odd priority class": {"priorityClassName": "H_"},
    "a priority": {"priority": 5},
    "a negative priority": {"priority": -5},
    "a system's priority": {"priority": 1_000_000_001},
}

GANG = {"schedulingPolicy": {"gang": {"minCount": 2}}}


def _template(fields: dict[str, Any]) -> Any:
    """Return a function that changes the only template of a Workload."""
    from tests.runtime.apiserver.contracts.kinds.play import laid_over

    def change(workload: dict[str, Any]) -> None:
        templates = workload["spec"]["podGroupTemplates"]
        templates[0] = laid_over(templates[0], fields)

    return change


TABLE: Table = {
    "podgroups": Kind(
        f"{HERE}/podgroups",
        {
            "metadata": {"name": "g"},
            "spec": {**GANG, "resourceClaims": [CLAIM]},
        },
        creates={
            **{label: {"spec": fields} for label, fields in SHARED.items()},
            "nothing": {"spec": None},
            "a bad name": {"metadata": {"name": "G_"}},
            "a template of an unknown workload": _spec(
                podGroupTemplateRef={"workload": {"workloadName": "w", "podGroupTemplateName": "t"}}
            ),
            "an empty template": _spec(podGroupTemplateRef={"workload": None}),
            "no names of the template": _spec(
                podGroupTemplateRef={"workload": {"workloadName": None, "podGroupTemplateName": None}}
            ),
            "odd names of the template": _spec(
                podGroupTemplateRef={"workload": {"workloadName": "W_", "podGroupTemplateName": "T_"}}
            ),
            "a status": _conditions(_condition()),
        },
        updates={
            "nothing": {},
            "another count": _spec(schedulingPolicy={"gang": {"minCount": 3}}),
            "an odd count": _spec(schedulingPolicy={"gang": {"minCount": -3}}),
            "another policy": _spec(schedulingPolicy={"gang": None, "basic": {}}),
            "another template": _spec(podGroupTemplateRef={"workload": {"workloadName": "v"}}),
            "another claim": _spec(resourceClaims=[{**CLAIM, "resourceClaimName": "other"}]),
            "one more claim": _spec(resourceClaims=[CLAIM, {**CLAIM, "name": "b"}]),
            "no claim": _spec(resourceClaims=None),
            "a topology": _spec(**_topology({"key": "zone"})),
            "disrupted as a whole": _spec(disruptionMode="PodGroup"),
            "a priority": _spec(priority=5),
            "a priority class": _spec(priorityClassName="high"),
            "a label": {"metadata": {"labels": {"a": "b"}}},
            "no version": {"metadata": {"resourceVersion": None}},
            "a status": _conditions(_condition()),
        },
        statuses={
            "a condition": _conditions(_condition()),
            "an odd condition": _conditions(_condition("a b", status="Maybe", reason="", lastTransitionTime=None)),
            "a condition twice": _conditions(_condition(), _condition()),
            "a claim": {"status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "g-gpu"}]}},
            "an unknown claim": {"status": {"resourceClaimStatuses": [{"name": "b", "resourceClaimName": "g-b"}]}},
            "an odd claim": {"status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "G_"}]}},
            "a claim twice": {"status": {"resourceClaimStatuses": [{"name": "gpu"}, {"name": "gpu"}]}},
            "five claims": {"status": {"resourceClaimStatuses": [{"name": f"c{i}"} for i in range(5)]}},
            "another spec": _spec(schedulingPolicy={"gang": {"minCount": 3}}),
        },
    ),
    "workloads": Kind(
        f"{HERE}/workloads",
        {
            "metadata": {"name": "w"},
            "spec": {
                "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "j"},
                "podGroupTemplates": [{"name": "t", **GANG, "resourceClaims": [CLAIM]}],
            },
        },
        creates={
            **{label: _template(fields) for label, fields in SHARED.items()},
            "nothing": {"spec": None},
            "a bad name": {"metadata": {"name": "W_"}},
            "no controller": _spec(controllerRef=None),
            "an empty controller": _spec(controllerRef={"apiGroup": None, "kind": None, "name": None}),
            "an odd controller": _spec(controllerRef={"apiGroup": "G_", "kind": "K/", "name": "n%"}),
            "no templates": _spec(podGroupTemplates=None),
            "no name of a template": _template({"name": None}),
            "an odd name of a template": _template({"name": "T_"}),
            "a template twice": _spec(podGroupTemplates=[{"name": "t", **GANG}, {"name": "t", **GANG}]),
            "eight templates": _spec(podGroupTemplates=[{"name": f"t{i}", **GANG} for i in range(8)]),
            "nine templates": _spec(podGroupTemplates=[{"name": f"t{i}", **GANG} for i in range(9)]),
        },
        updates={
            "nothing": {},
            "another count": _template({"schedulingPolicy": {"gang": {"minCount": 3}}}),
            "another claim": _template(_claims({**CLAIM, "resourceClaimName": "other"})),
            "no templates": _spec(podGroupTemplates=None),
            "another controller": _spec(controllerRef={"name": "k"}),
            "no controller": _spec(controllerRef=None),
            "a label": {"metadata": {"labels": {"a": "b"}}},
            "no version": {"metadata": {"resourceVersion": None}},
        },
    ),
}
