"""Validation of StatefulSets whose containers mount the volumes of claim templates."""

from __future__ import annotations

from typing import Any

from tests.runtime.apiserver.conftest import Api


def stateful_set(mounted: str, **of_pods: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "volumeMounts": [{"name": mounted, "mountPath": "/data"}]}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {
        "metadata": {"name": "db"},
        "spec": {
            "serviceName": "db",
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container], **of_pods}},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
        },
    }


def test_containers_may_mount_volumes_of_claim_templates(api: Api) -> None:
    answer = api.send("POST", "/apis/apps/v1/namespaces/default/statefulsets", stateful_set("data", hostname="x"))
    assert answer.status == 201
    template = answer.obj["spec"]["template"]["spec"]
    assert "volumes" not in template
    assert template["hostname"] == "x"
    refused = api.send("POST", "/apis/apps/v1/namespaces/default/statefulsets", stateful_set("other"))
    assert refused.causes == {"spec.template.spec.containers[0].volumeMounts[0].name": 'Not found: "other"'}
