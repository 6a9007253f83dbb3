"""Objects of autoscaling, in both versions, and of policy."""

from __future__ import annotations

from typing import Any

from tests.runtime.apiserver.contracts.kinds.play import Kind, Table

TARGET = {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}
UTILIZATION = {"type": "Utilization", "averageUtilization": 50}
MEMORY = {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}}
METRIC = {"name": "m"}
THING = {"kind": "Service", "name": "s"}


def _metric(type_: str, **source: Any) -> dict[str, Any]:
    return {"spec": {"metrics": [{"type": type_, **source}]}}


def _resource(**target: Any) -> dict[str, Any]:
    return _metric("Resource", resource={"name": "cpu", "target": target})


def _up(**rules: Any) -> dict[str, Any]:
    return {"spec": {"behavior": {"scaleUp": rules}}}


NAMESPACED = "namespaces/contract"
CONDITION = {"type": "AbleToScale", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "a"}

TABLE: Table = {
    "horizontalpodautoscalers": Kind(
        f"/apis/autoscaling/v2/{NAMESPACED}/horizontalpodautoscalers",
        {"metadata": {"name": "h"}, "spec": {"maxReplicas": 3, "scaleTargetRef": TARGET}},
        creates={
            "nothing": {"spec": None},
            "no maximum": {"spec": {"maxReplicas": None}},
            "a negative maximum": {"spec": {"maxReplicas": -1}},
            "a minimum of none": {"spec": {"minReplicas": 0}},
            "a minimum above": {"spec": {"minReplicas": 5}},
            "no target": {"spec": {"scaleTargetRef": None}},
            "a target of the core group": {"spec": {"scaleTargetRef": {"apiVersion": "v1"}}},
            "a replication controller": {
                "spec": {"scaleTargetRef": {"apiVersion": "v1", "kind": "ReplicationController"}}
            },
            "an odd target": {"spec": {"scaleTargetRef": {"apiVersion": "a/b/c", "kind": "a/", "name": ".."}}},
            "no type": _metric("", resource={"name": "cpu", "target": UTILIZATION}),
            "an unknown type": _metric("Sun", resource={"name": "cpu", "target": UTILIZATION}),
            "no source": _metric("Resource"),
            "another source": _metric("Pods", resource={"name": "cpu", "target": UTILIZATION}),
            "two sources": _metric(
                "Resource",
                resource={"name": "cpu", "target": UTILIZATION},
                pods={"metric": METRIC, "target": {"type": "AverageValue", "averageValue": "1"}},
            ),
            "no resource": _metric("Resource", resource={"target": UTILIZATION}),
            "no target type": _resource(averageUtilization=5),
            "no target value": _resource(type="Utilization"),
            "two target values": _resource(type="Utilization", averageUtilization=5, averageValue="1"),
            "zero utilization": _resource(type="Utilization", averageUtilization=0),
            "a negative value": _resource(type="AverageValue", averageValue="-1"),
            "an unknown target type": _resource(type="Sun", averageValue="1"),
            "memory": {"spec": {"metrics": [MEMORY]}},
            "a container": _metric(
                "ContainerResource", containerResource={"name": "cpu", "container": "c", "target": UTILIZATION}
            ),
            "an odd container": _metric(
                "ContainerResource", containerResource={"name": "sun", "container": "C_", "target": UTILIZATION}
            ),
            "no container": _metric("ContainerResource", containerResource={"target": UTILIZATION}),
            "pods": _metric("Pods", pods={"metric": METRIC, "target": {"type": "AverageValue", "averageValue": "1"}}),
            "pods without a metric": _metric("Pods", pods={"target": {"type": "AverageValue"}}),
            "an object": _metric(
                "Object", object={"describedObject": THING, "metric": METRIC, "target": {"type": "Value", "value": "1"}}
            ),
            "no object": _metric("Object", object={"metric": {"name": "a/b"}, "target": {"type": "Value"}}),
            "external": _metric("External", external={"metric": METRIC, "target": {"type": "Value", "value": "1"}}),
            "external twice": _metric(
                "External", external={"metric": METRIC, "target": {"type": "Value", "value": "1", "averageValue": "1"}}
            ),
            "a behavior": _up(policies=[{"type": "Pods", "value": 1, "periodSeconds": 5}]),
            "no behavior": {"spec": {"behavior": {}}},
            "an odd behavior": _up(
                stabilizationWindowSeconds=-1,
                selectPolicy="Sun",
                policies=[{"type": "Sun", "value": 0, "periodSeconds": 2000}, {"type": "Pods"}],
                tolerance="-1",
            ),
            "a long window": _up(stabilizationWindowSeconds=3601),
            "no policies": _up(policies=[]),
            "a tolerance": _up(tolerance="0.1"),
            "old annotations": {
                "metadata": {"annotations": {"autoscaling.alpha.kubernetes.io/metrics": "[]", "a": "b"}}
            },
        },
        updates={
            "another target": {"spec": {"scaleTargetRef": {"name": "other"}}},
            "an odd version": {"spec": {"scaleTargetRef": {"apiVersion": "v1"}}},
            "a minimum above": {"spec": {"minReplicas": 5}},
            "a status": {"status": {"desiredReplicas": 3}},
        },
        statuses={
            "counts": {"status": {"desiredReplicas": 3, "currentReplicas": 1, "conditions": [CONDITION]}},
            "negative counts": {"status": {"desiredReplicas": -3, "currentReplicas": -1}},
        },
    ),
    "horizontalpodautoscalers of v1": Kind(
        f"/apis/autoscaling/v1/{NAMESPACED}/horizontalpodautoscalers",
        {"metadata": {"name": "h1"}, "spec": {"maxReplicas": 3, "scaleTargetRef": TARGET}},
        creates={
            "a target": {"spec": {"targetCPUUtilizationPercentage": 70}},
            "a zero target": {"spec": {"targetCPUUtilizationPercentage": 0}},
            "no maximum": {"spec": {"maxReplicas": None}},
            "metrics": {
                "metadata": {
                    "annotations": {
                        "autoscaling.alpha.kubernetes.io/metrics": '[{"type":"Pods","pods":{"metricName":"m",'
                        '"targetAverageValue":"5"}},{"type":"Object","object":{"target":{"kind":"A","name":"b"},'
                        '"metricName":"o","targetValue":"3"}},{"type":"External","external":{"metricName":"e",'
                        '"targetAverageValue":"2","metricSelector":{"matchLabels":{"a":"b"}}}},{"type":"Resource",'
                        '"resource":{"name":"memory","targetAverageValue":"1Gi"}},{"type":"ContainerResource",'
                        '"containerResource":{"name":"cpu","container":"c","targetAverageUtilization":5}}]'
                    }
                }
            },
            "malformed metrics": {
                "metadata": {"annotations": {"autoscaling.alpha.kubernetes.io/metrics": "x", "a": "b"}}
            },
            "a behavior": {
                "metadata": {
                    "annotations": {
                        "autoscaling.alpha.kubernetes.io/behavior": '{"ScaleUp":{"StabilizationWindowSeconds":5,'
                        '"Policies":[{"Type":"Pods","Value":1,"PeriodSeconds":5}]}}'
                    }
                }
            },
        },
        updates={
            "a target": {"spec": {"targetCPUUtilizationPercentage": 70}},
            "a minimum": {"spec": {"minReplicas": 2}},
        },
        statuses={
            "counts": {"status": {"desiredReplicas": 3, "currentReplicas": 1, "currentCPUUtilizationPercentage": 20}},
        },
    ),
    "poddisruptionbudgets": Kind(
        f"/apis/policy/v1/{NAMESPACED}/poddisruptionbudgets",
        {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}},
        creates={
            "nothing": {"spec": None},
            "both": {"spec": {"maxUnavailable": 1}},
            "a percentage": {"spec": {"minAvailable": "50%"}},
            "too much": {"spec": {"minAvailable": "150%"}},
            "text": {"spec": {"minAvailable": "many"}},
            "a negative number": {"spec": {"minAvailable": -1}},
            "an odd selector": {"spec": {"selector": {"matchLabels": {"-": "b c"}}}},
            "an odd expression": {"spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}},
            "an unknown policy": {"spec": {"unhealthyPodEvictionPolicy": "Never"}},
            "a policy": {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}},
        },
        updates={
            "another bound": {"spec": {"minAvailable": None, "maxUnavailable": 1}},
            "another selector": {"spec": {"selector": {"matchLabels": {"c": "d"}}}},
            "no version": {"metadata": {"resourceVersion": None}},
        },
        statuses={
            "counts": {
                "status": {"disruptionsAllowed": 1, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}
            },
            "negative": {"status": {"disruptionsAllowed": -1, "currentHealthy": -1}},
            "an odd condition": {"status": {"conditions": [{"type": "a b", "status": "Perhaps"}]}},
        },
    ),
}
