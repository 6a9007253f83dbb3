"""Objects of coordination, scheduling, node, flowcontrol and apiregistration."""

from __future__ import annotations

from typing import Any

from tests.runtime.apiserver.contracts.kinds.play import Kind, Table

FLOW = "/apis/flowcontrol.apiserver.k8s.io/v1"
LIMITED = {"type": "Limited", "limited": {"nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}}}
USER = {"kind": "User", "user": {"name": "a"}}
RESOURCES = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "namespaces": ["a"]}
PATHS = {"verbs": ["get"], "nonResourceURLs": ["/healthz"]}


def _spec(**fields: Any) -> dict[str, Any]:
    return {"spec": fields}


def _rule(**fields: Any) -> dict[str, Any]:
    return {"spec": {"rules": [{"subjects": [USER], "resourceRules": [RESOURCES], **fields}]}}


def _queuing(**fields: Any) -> dict[str, Any]:
    queuing = {"queues": 8, "handSize": 2, "queueLengthLimit": 5, **fields}
    return {"spec": {"limited": {"limitResponse": {"type": "Queue", "queuing": queuing}}}}


TABLE: Table = {
    "leases": Kind(
        "/apis/coordination.k8s.io/v1/namespaces/contract/leases",
        {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a", "leaseDurationSeconds": 5}},
        creates={
            "nothing": {"spec": None},
            "no time": _spec(leaseDurationSeconds=0),
            "negative numbers": _spec(leaseDurationSeconds=-1, leaseTransitions=-1),
            "an empty holder": _spec(holderIdentity=""),
            "a strategy": _spec(strategy="OldestEmulationVersion"),
            "an odd strategy": _spec(strategy="a b"),
            "a preferred holder": _spec(preferredHolder="b"),
            "a preferred holder and a strategy": _spec(preferredHolder="b", strategy="OldestEmulationVersion"),
            "an empty preferred holder": _spec(preferredHolder="", strategy="OldestEmulationVersion"),
        },
        updates={"negative numbers": _spec(leaseDurationSeconds=-1), "another holder": _spec(holderIdentity="b")},
    ),
    "priorityclasses": Kind(
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        {"metadata": {"name": "high"}, "value": 1000},
        creates={
            "no value": {"value": None},
            "a system's value": {"value": 1_000_000_001},
            "a system's name": {"metadata": {"name": "system-high"}},
            "a system's class": {"metadata": {"name": "system-node-critical"}, "value": 2_000_001_000},
            "a bad name": {"metadata": {"name": "High_"}},
            "an unknown policy": {"preemptionPolicy": "Perhaps"},
            "never": {"preemptionPolicy": "Never"},
            "a negative value": {"value": -1000},
            "a default": {"globalDefault": True, "description": "a"},
        },
        updates={
            "another value": {"value": 5},
            "another policy": {"preemptionPolicy": "Never"},
            "a default": {"globalDefault": True},
            "a description": {"description": "b"},
        },
    ),
    "runtimeclasses": Kind(
        "/apis/node.k8s.io/v1/runtimeclasses",
        {"metadata": {"name": "gvisor"}, "handler": "runsc"},
        creates={
            "no handler": {"handler": None},
            "an odd handler": {"handler": "Run_"},
            "overhead": {"overhead": {"podFixed": {"cpu": "1", "memory": "1Gi"}}},
            "negative overhead": {"overhead": {"podFixed": {"cpu": "-1", "sun": "1"}}},
            "scheduling": {"scheduling": {"nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}]}},
            "odd scheduling": {
                "scheduling": {"nodeSelector": {"-": "a b"}, "tolerations": [{"key": "a", "operator": "Near"}]}
            },
            "a toleration twice": {
                "scheduling": {"tolerations": [{"key": "a", "operator": "Exists"}, {"key": "a", "operator": "Exists"}]}
            },
        },
        updates={
            "another handler": {"handler": "kata"},
            "overhead": {"overhead": {"podFixed": {"cpu": "1"}}},
            "a label": {"metadata": {"labels": {"a": "b"}}},
        },
    ),
    "flowschemas": Kind(
        f"{FLOW}/flowschemas",
        {
            "metadata": {"name": "f"},
            "spec": {
                "priorityLevelConfiguration": {"name": "global-default"},
                "rules": [{"subjects": [USER], "resourceRules": [RESOURCES]}],
            },
        },
        creates={
            "nothing": {"spec": None},
            "no level": _spec(priorityLevelConfiguration={"name": None}),
            "an odd level": _spec(priorityLevelConfiguration={"name": "L_"}),
            "a precedence": _spec(matchingPrecedence=50),
            "a high precedence": _spec(matchingPrecedence=20_000),
            "a negative precedence": _spec(matchingPrecedence=-1),
            "the first precedence": _spec(matchingPrecedence=1),
            "a distinguisher": _spec(distinguisherMethod={"type": "ByUser"}),
            "an unknown distinguisher": _spec(distinguisherMethod={"type": "BySun"}),
            "no rules": _spec(rules=[]),
            "no subjects": _rule(subjects=[]),
            "no matches": _rule(resourceRules=[]),
            "paths": _rule(nonResourceRules=[PATHS]),
            "odd paths": _rule(
                nonResourceRules=[{"verbs": ["Get", "*"], "nonResourceURLs": ["a", "/a b", "/*/a", "*"]}]
            ),
            "no paths": _rule(nonResourceRules=[{}]),
            "an unknown subject": _rule(subjects=[{"kind": "Dog"}]),
            "no user": _rule(subjects=[{"kind": "User"}]),
            "no user name": _rule(subjects=[{"kind": "User", "user": {"name": ""}}]),
            "a user and a group": _rule(subjects=[{**USER, "group": {"name": "a"}}]),
            "no group name": _rule(subjects=[{"kind": "Group", "group": {"name": ""}}]),
            "an account": _rule(
                subjects=[{"kind": "ServiceAccount", "serviceAccount": {"name": "a", "namespace": "b"}}]
            ),
            "an odd account": _rule(
                subjects=[{"kind": "ServiceAccount", "serviceAccount": {"name": "A_", "namespace": "B_"}}]
            ),
            "no account": _rule(subjects=[{"kind": "ServiceAccount", "serviceAccount": {}}]),
            "no verbs": _rule(resourceRules=[{**RESOURCES, "verbs": []}]),
            "no groups": _rule(resourceRules=[{**RESOURCES, "apiGroups": []}]),
            "no resources": _rule(resourceRules=[{**RESOURCES, "resources": []}]),
            "no namespaces": _rule(resourceRules=[{**RESOURCES, "namespaces": []}]),
            "odd verbs": _rule(resourceRules=[{**RESOURCES, "verbs": ["*", "get", "Get"]}]),
            "odd resources": _rule(
                resourceRules=[
                    {**RESOURCES, "apiGroups": ["*", "a"], "resources": ["*", "a"], "namespaces": ["N_", "*", "a"]}
                ]
            ),
            "cluster scope": _rule(resourceRules=[{**RESOURCES, "namespaces": [], "clusterScope": True}]),
        },
        # The server itself writes the status meanwhile.
        updates={"an odd one": {"metadata": {"resourceVersion": None}, "spec": {"matchingPrecedence": -1}}},
    ),
    "prioritylevelconfigurations": Kind(
        f"{FLOW}/prioritylevelconfigurations",
        {"metadata": {"name": "p"}, "spec": LIMITED},
        creates={
            "nothing": {"spec": None},
            "an unknown type": _spec(type="Some"),
            "no limits": _spec(limited=None),
            "exempt": {"spec": {"type": "Exempt", "limited": None}},
            "exempt and limited": {"spec": {"type": "Exempt"}},
            "exempt with numbers": {
                "spec": {
                    "type": "Exempt",
                    "limited": None,
                    "exempt": {"nominalConcurrencyShares": 3, "lendablePercent": 5},
                }
            },
            "limited and exempt": {"spec": {"exempt": {}}},
            "no shares": {"spec": {"limited": {"nominalConcurrencyShares": None}}},
            "zero shares": {"spec": {"limited": {"nominalConcurrencyShares": 0}}},
            "negative shares": {"spec": {"limited": {"nominalConcurrencyShares": -1}}},
            "odd lending": {"spec": {"limited": {"lendablePercent": 101, "borrowingLimitPercent": -1}}},
            "an unknown response": {"spec": {"limited": {"limitResponse": {"type": "Sing"}}}},
            "no response": {"spec": {"limited": {"limitResponse": None}}},
            "a queue": _queuing(),
            "a queue without numbers": {"spec": {"limited": {"limitResponse": {"type": "Queue"}}}},
            "a queue that rejects": {"spec": {"limited": {"limitResponse": {"type": "Reject", "queuing": {}}}}},
            "a queue of defaults": {"spec": {"limited": {"limitResponse": {"type": "Queue", "queuing": {}}}}},
            "negative queues": _queuing(queues=-1, handSize=-1, queueLengthLimit=-1),
            "more queues than there may be": _queuing(queues=20_000_000),
            "a hand larger than the deck": _queuing(queues=2, handSize=4),
            "a hand too large": _queuing(queues=1000, handSize=8),
            "a system's name": {"metadata": {"name": "exempt"}},
        },
        updates={"shares": {"spec": {"limited": {"nominalConcurrencyShares": 7}}}},
        statuses={"an odd condition": {"status": {"conditions": [{"type": "A", "status": "Perhaps"}]}}},
    ),
    "apiservices": Kind(
        "/apis/apiregistration.k8s.io/v1/apiservices",
        {
            "metadata": {"name": "v1.example.com"},
            "spec": {
                "group": "example.com",
                "version": "v1",
                "groupPriorityMinimum": 100,
                "versionPriority": 10,
                "insecureSkipTLSVerify": True,
                "service": {"name": "s", "namespace": "n"},
            },
        },
        creates={
            "nothing": {"spec": None},
            "another name": {"metadata": {"name": "v2.example.com"}},
            "a bad name": {"metadata": {"name": "v1.example.com/"}},
            "an odd group": _spec(group="G_"),
            "an odd version": _spec(version="V_"),
            "odd priorities": _spec(groupPriorityMinimum=20_001, versionPriority=1001),
            "no priorities": _spec(groupPriorityMinimum=None, versionPriority=None),
            "no service": _spec(service=None),
            "a service without a name": _spec(service={"name": None, "namespace": None}),
            "an odd port": _spec(service={"port": 70_000}),
            "a bundle that is not looked at": _spec(caBundle="YQ=="),
            "a bundle": _spec(insecureSkipTLSVerify=None, caBundle="YQ=="),
            "a local bundle": _spec(service=None, caBundle="YQ=="),
        },
        # The server itself writes the status meanwhile.
        updates={"no version": {"metadata": {"resourceVersion": None}}},
    ),
}
