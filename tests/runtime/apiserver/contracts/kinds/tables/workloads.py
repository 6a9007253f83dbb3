"""Objects of apps, ReplicationControllers and PodTemplates."""

from __future__ import annotations

from typing import Any

from tests.runtime.apiserver.contracts.kinds.play import Kind, Table

ROOT = "/apis/apps/v1/namespaces/contract"
LABELS = {"app": "web"}
POD = {"containers": [{"name": "c", "image": "nginx:1"}]}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": POD}
SPEC = {"selector": {"matchLabels": LABELS}, "template": TEMPLATE}


def _spec(**fields: Any) -> dict[str, Any]:
    return {"spec": fields}


def _rolling(**fields: Any) -> dict[str, Any]:
    return {"type": "RollingUpdate", "rollingUpdate": fields}


SELECTED: dict[str, Any] = {
    "nothing": {"spec": None},
    "no selector": _spec(selector=None),
    "an empty selector": _spec(selector={"matchLabels": None}),
    "a selector of others": _spec(selector={"matchLabels": {"app": "other"}}),
    "an odd selector": _spec(selector={"matchLabels": {"-": "a b"}}),
    "an odd expression": _spec(selector={"matchExpressions": [{"key": "a", "operator": "Near"}]}),
    "no template": _spec(template=None),
    "no containers": {"spec": {"template": {"spec": {"containers": []}}}},
    "restarting never": {"spec": {"template": {"spec": {"restartPolicy": "Never"}}}},
    "a deadline": {"spec": {"template": {"spec": {"activeDeadlineSeconds": 5}}}},
    "ephemeral containers": {"spec": {"template": {"spec": {"ephemeralContainers": [{"name": "e", "image": "a"}]}}}},
    "a bad name": {"metadata": {"name": "Web_"}},
}
REPLICATED = {
    **SELECTED,
    "negative replicas": _spec(replicas=-1),
    "negative readiness": _spec(minReadySeconds=-1),
    "no replicas": _spec(replicas=0),
}
NEGATIVE = {"status": {"replicas": -1, "readyReplicas": -1, "availableReplicas": -1, "observedGeneration": -1}}
ODD_COUNTS = {"status": {"replicas": 1, "readyReplicas": 2, "availableReplicas": 3}}
CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}

TABLE: Table = {
    "deployments": Kind(
        f"{ROOT}/deployments",
        {"metadata": {"name": "d"}, "spec": SPEC},
        creates={
            **REPLICATED,
            "an unknown strategy": _spec(strategy={"type": "Sideways"}),
            "recreate with numbers": _spec(strategy={"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}),
            "recreate": _spec(strategy={"type": "Recreate"}),
            "nothing moves": _spec(strategy=_rolling(maxSurge=0, maxUnavailable=0)),
            "more than all": _spec(strategy=_rolling(maxUnavailable="150%")),
            "text": _spec(strategy=_rolling(maxSurge="many", maxUnavailable=-1)),
            "negative history": _spec(revisionHistoryLimit=-1),
            "a short deadline": _spec(progressDeadlineSeconds=5, minReadySeconds=5),
            "a negative deadline": _spec(progressDeadlineSeconds=-1),
            "paused": _spec(paused=True),
        },
        updates={
            "another selector": _spec(selector={"matchLabels": {"app": "other"}}),
            "another image": {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "nginx:2"}]}}}},
            "negative replicas": _spec(replicas=-1),
            "a status": {"status": {"replicas": 4}},
        },
        statuses={
            "counts": {"status": {"replicas": 2, "readyReplicas": 1, "observedGeneration": 1}},
            "negative": NEGATIVE,
            "odd": ODD_COUNTS,
            "collisions": {"status": {"collisionCount": -1}},
        },
    ),
    "replicasets": Kind(
        f"{ROOT}/replicasets",
        {"metadata": {"name": "r"}, "spec": SPEC},
        creates=REPLICATED,
        updates={
            "another selector": _spec(selector={"matchLabels": {"app": "other"}}),
            "replicas": _spec(replicas=3),
        },
        statuses={"negative": NEGATIVE, "odd": ODD_COUNTS, "counts": {"status": {"replicas": 3, "readyReplicas": 2}}},
    ),
    "daemonsets": Kind(
        f"{ROOT}/daemonsets",
        {"metadata": {"name": "d"}, "spec": SPEC},
        creates={
            **SELECTED,
            "negative readiness": _spec(minReadySeconds=-1),
            "an unknown strategy": _spec(updateStrategy={"type": "Sideways"}),
            "on delete": _spec(updateStrategy={"type": "OnDelete"}),
            "nothing moves": _spec(updateStrategy=_rolling(maxSurge=0, maxUnavailable=0)),
            "both": _spec(updateStrategy=_rolling(maxSurge=1, maxUnavailable=1)),
            "more than all": _spec(updateStrategy=_rolling(maxUnavailable="150%")),
            "text": _spec(updateStrategy=_rolling(maxUnavailable="many")),
            "negative history": _spec(revisionHistoryLimit=-1),
        },
        updates={
            "another selector": _spec(selector={"matchLabels": {"app": "other"}}),
            "another image": {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "nginx:2"}]}}}},
        },
        statuses={
            "negative": {
                "status": {
                    "currentNumberScheduled": -1,
                    "numberMisscheduled": -1,
                    "desiredNumberScheduled": -1,
                    "numberReady": -1,
                    "numberAvailable": -1,
                    "numberUnavailable": -1,
                    "updatedNumberScheduled": -1,
                    "observedGeneration": -1,
                }
            },
            "counts": {"status": {"numberReady": 1}},
        },
    ),
    "statefulsets": Kind(
        f"{ROOT}/statefulsets",
        {"metadata": {"name": "s"}, "spec": {**SPEC, "serviceName": "s"}},
        creates={
            **REPLICATED,
            "no service": _spec(serviceName=None),
            "an odd service": _spec(serviceName="S_"),
            "an unknown management": _spec(podManagementPolicy="Chaos"),
            "parallel": _spec(podManagementPolicy="Parallel"),
            "an unknown strategy": _spec(updateStrategy={"type": "Sideways"}),
            "on delete": _spec(updateStrategy={"type": "OnDelete"}),
            "on delete with numbers": _spec(updateStrategy={"type": "OnDelete", "rollingUpdate": {"partition": 1}}),
            "a partition": _spec(updateStrategy=_rolling(partition=2)),
            "a negative partition": _spec(updateStrategy=_rolling(partition=-1)),
            "none unavailable": _spec(updateStrategy=_rolling(maxUnavailable=0)),
            "a claim": _spec(volumeClaimTemplates=[CLAIM]),
            "an odd claim": _spec(volumeClaimTemplates=[{"metadata": {"name": "D_"}}]),
            "retention": _spec(persistentVolumeClaimRetentionPolicy={"whenDeleted": "Delete"}),
            "unknown retention": _spec(
                persistentVolumeClaimRetentionPolicy={"whenDeleted": "Burn", "whenScaled": "Burn"}
            ),
            "a first ordinal": _spec(ordinals={"start": 5}),
            "a negative ordinal": _spec(ordinals={"start": -5}),
            "negative history": _spec(revisionHistoryLimit=-1),
            "a long name": {"metadata": {"name": "a" * 60}},
        },
        updates={
            "another selector": _spec(selector={"matchLabels": {"app": "other"}}),
            "another service": _spec(serviceName="t"),
            "a claim": _spec(volumeClaimTemplates=[CLAIM]),
            "another management": _spec(podManagementPolicy="Parallel"),
            "replicas": _spec(replicas=3),
            "another image": {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "nginx:2"}]}}}},
            "a first ordinal": _spec(ordinals={"start": 5}),
        },
        statuses={
            "negative": {**NEGATIVE, "status": {**NEGATIVE["status"], "currentReplicas": -1, "updatedReplicas": -1}},
            "odd": {"status": {"replicas": 1, "readyReplicas": 2, "currentReplicas": 2, "updatedReplicas": 2}},
        },
    ),
    "controllerrevisions": Kind(
        f"{ROOT}/controllerrevisions",
        {"metadata": {"name": "c"}, "revision": 1, "data": {"a": "b"}},
        creates={"no data": {"data": None}, "a negative revision": {"revision": -1}, "no revision": {"revision": None}},
        updates={"other data": {"data": {"c": "d"}}, "another revision": {"revision": 2}},
    ),
    "replicationcontrollers": Kind(
        "/api/v1/namespaces/contract/replicationcontrollers",
        {"metadata": {"name": "r"}, "spec": {"template": TEMPLATE}},
        creates={
            "nothing": {"spec": None},
            "no template": _spec(template=None),
            "no labels": {"spec": {"template": {"metadata": {"labels": None}}}},
            "a selector of others": _spec(selector={"app": "other"}),
            "an odd selector": _spec(selector={"-": "a b"}),
            "negative replicas": _spec(replicas=-1),
            "negative readiness": _spec(minReadySeconds=-1),
            "restarting never": {"spec": {"template": {"spec": {"restartPolicy": "Never"}}}},
        },
        updates={"another selector": _spec(selector={"app": "other"}), "replicas": _spec(replicas=3)},
        statuses={"negative": NEGATIVE, "odd": ODD_COUNTS},
    ),
    "podtemplates": Kind(
        "/api/v1/namespaces/contract/podtemplates",
        {"metadata": {"name": "t"}, "template": TEMPLATE},
        creates={
            "no template": {"template": None},
            "no containers": {"template": {"spec": {"containers": []}}},
            "odd labels": {"template": {"metadata": {"labels": {"-": "a b"}}}},
        },
        updates={"another image": {"template": {"spec": {"containers": [{"name": "c", "image": "nginx:2"}]}}}},
    ),
}
