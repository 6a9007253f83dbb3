"""LimitRanger: defaults, and bounds of containers, pods and claims.

Source of the cases: kubernetes plugin/pkg/admission/limitranger/admission_test.go (v1.36).
"""

from __future__ import annotations

from typing import Any

import pytest

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.admission.limit_ranger import ANNOTATION
from tests.runtime.apiserver.conftest import Answer, Api

AMOUNTS = {  # by resource: text of a multiple of its unit
    "cpu": lambda number: f"{int(number * 100)}m",
    "memory": lambda number: f"{int(number * 100)}Mi",
    "ephemeral-storage": lambda number: f"{int(number * 100)}Mi",
}


def resources(name: str, request: float | None, limit: float | None) -> Object:
    parts = {"requests": request, "limits": limit}
    return {part: {name: AMOUNTS[name](number)} for part, number in parts.items() if number is not None}


def create(api: Api, containers: list[Object], init: list[Object] | None = None, **spec: Any) -> Answer:
    def made(kind: str, given: list[Object]) -> list[Object]:
        return [
            {"name": f"{kind}{i}", "image": "i", **(part if "resources" in part else {"resources": part})}
            for i, part in enumerate(given)
        ]

    pod = {"containers": made("c", containers), "initContainers": made("i", init or []), **spec}
    return api.create("pods", {"metadata": {"name": "p"}, "spec": pod})


def limit(api: Api, type_: str, **item: Object) -> None:
    """Create a LimitRange without defaults; the server derives them from min and max."""
    answer = api.create("limitranges", {"metadata": {"name": "l"}, "spec": {"limits": [{"type": type_, **item}]}})
    assert answer.status == 201, answer.message


@pytest.mark.parametrize("name", sorted(AMOUNTS))
@pytest.mark.parametrize(
    ("bounds", "count", "asked", "refused"),
    [
        ({"min": 1}, 2, (0.75, None), ""),
        ({"min": 1}, 2, (0.75, 2), ""),
        ({"max": 2}, 2, (0.5, 1), ""),
        ({"max": 2}, 2, (None, 1), ""),
        ({"max": 4.5, "maxLimitRequestRatio": 1.5}, 3, (1, 1.5), ""),
        ({"min": 1}, 1, (0.75, None), "minimum {name} usage per Pod is {1}, but request is {0.75}"),
        ({"min": 1}, 1, (None, None), "minimum {name} usage per Pod is {1}.  No request is specified"),
        ({"max": 2}, 3, (0.5, 1), "maximum {name} usage per Pod is {2}, but limit is {3}"),
        ({"max": 2}, 3, (None, 1), "maximum {name} usage per Pod is {2}, but limit is {3}"),
        ({"max": 2}, 1, (None, None), "maximum {name} usage per Pod is {2}.  No limit is specified"),
        (
            {"maxLimitRequestRatio": 1.5},
            3,
            (1, 2),
            "{name} max limit to request ratio per Pod is 1500m, but provided ratio is 2.000000",
        ),
        (
            {"maxLimitRequestRatio": 1.5},
            1,
            (None, None),
            "{name} max limit to request ratio per Pod is 1500m, but no request is specified or request is 0",
        ),
        (
            {"maxLimitRequestRatio": 1.5},
            1,
            (1, None),
            "{name} max limit to request ratio per Pod is 1500m, but no limit is specified or limit is 0",
        ),
    ],
)
def test_sum_of_a_pods_containers_is_limited(
    api: Api, name: str, bounds: dict[str, float], count: int, asked: Any, refused: str
) -> None:
    def amount(part: str, number: float) -> str:
        return str(number) if part == "maxLimitRequestRatio" else AMOUNTS[name](number)

    limit(api, "Pod", **{part: {name: amount(part, number)} for part, number in bounds.items()})
    answer = create(api, [resources(name, *asked)] * count)
    if not refused:
        assert answer.status == 201, answer.message
        return
    for number in (0.75, 1, 2, 3):
        refused = refused.replace(f"{{{number}}}", AMOUNTS[name](number))
    assert answer.status == 403
    assert answer.reason == "Forbidden"
    assert answer.message == f'pods "p" is forbidden: {refused.replace("{name}", name)}'


@pytest.mark.parametrize(
    ("bounds", "request_", "limit_", "refused"),
    [
        ({"min": {"cpu": "50m"}}, "100m", None, ""),
        ({"min": {"cpu": "50m"}}, "100m", "200m", ""),
        ({"min": {"cpu": "50m"}}, "40m", None, "minimum cpu usage per Container is 50m, but request is 40m"),
        ({"min": {"cpu": "50m"}}, "40m", "200m", "minimum cpu usage per Container is 50m, but request is 40m"),
        ({"max": {"cpu": "2"}}, "500m", "1", ""),
        ({"max": {"cpu": "2"}}, None, "1", ""),
        ({"max": {"cpu": "2"}}, "500m", "2500m", "maximum cpu usage per Container is 2, but limit is 2500m"),
        ({"max": {"cpu": "2"}}, None, "2500m", "maximum cpu usage per Container is 2, but limit is 2500m"),
        ({"maxLimitRequestRatio": {"cpu": "1.5"}}, "500m", "750m", ""),
        (
            {"maxLimitRequestRatio": {"cpu": "1"}},
            "1250m",
            "2500m",
            "cpu max limit to request ratio per Container is 1, but provided ratio is 2.000000",
        ),
    ],
)
def test_each_container_is_limited(
    api: Api, bounds: Object, request_: str | None, limit_: str | None, refused: str
) -> None:
    limit(api, "Container", **bounds)
    given = {part: {"cpu": cpu} for part, cpu in (("requests", request_), ("limits", limit_)) if cpu}
    for containers in ([given], [given, given]):
        answer = create(api, containers)
        if refused:
            wrong = f"[{refused}, {refused}]" if answer.message.endswith("]") else refused
            assert answer.message == f'pods "p" is forbidden: {wrong}'
        else:
            assert answer.status == 201, answer.message
            api.delete("pods", "p")
    also_init = create(api, [{"requests": {"cpu": "100m"}, "limits": {"cpu": "100m"}}], [given])
    assert (also_init.status == 403) is bool(refused)


def test_every_violation_is_reported_once(api: Api) -> None:
    limit(api, "Pod", min={"cpu": "1", "memory": "1Gi"}, max={"cpu": "1"})
    assert create(api, [{"requests": {"cpu": "100m"}}]).message == (
        'pods "p" is forbidden: [minimum cpu usage per Pod is 1, but request is 100m, '
        "minimum memory usage per Pod is 1Gi.  No request is specified, "
        "maximum cpu usage per Pod is 1.  No limit is specified]"
    )


def test_init_containers_count_if_they_need_more(api: Api) -> None:
    limit(api, "Pod", max={"cpu": "2"})
    small = {"requests": {"cpu": "500m"}, "limits": {"cpu": "1"}}
    large = {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
    assert create(api, [small, small], [large, small]).status == 201
    api.delete("pods", "p")
    sidecar = {"restartPolicy": "Always", "resources": large}
    assert create(api, [small], [sidecar]).message.endswith("maximum cpu usage per Pod is 2, but limit is 3")


@pytest.mark.parametrize(
    ("bounds", "own", "refused"),
    [
        ({"max": {"cpu": "400m"}}, {"limits": {"cpu": "300m"}}, ""),
        ({"max": {"cpu": "400m"}}, {"limits": {"cpu": "500m"}}, "maximum cpu usage per Pod is 400m, but limit is 500m"),
        ({"min": {"cpu": "160m"}}, {"requests": {"cpu": "200m"}}, ""),
        (
            {"min": {"cpu": "160m"}},
            {"requests": {"cpu": "155m"}},
            "minimum cpu usage per Pod is 160m, but request is 155m",
        ),
    ],
)
def test_pod_level_resources_are_limited_instead_of_the_sum(
    api: Api, bounds: Object, own: Object, refused: str
) -> None:
    limit(api, "Pod", **bounds)
    answer = create(api, [{"requests": {"cpu": "50m"}}] * 3, resources=own)
    assert answer.message.endswith(refused) if refused else answer.status == 201


def test_containers_get_defaults_for_missing_resources(api: Api) -> None:
    limit(
        api,
        "Container",
        default={"cpu": "75m", "memory": "10Mi"},
        defaultRequest={"cpu": "50m", "memory": "5Mi"},
    )
    made = create(api, [{}, {"requests": {"cpu": "60m"}}, {"limits": {"cpu": "70m", "memory": "7Mi"}}], [{}]).obj
    given = {"requests": {"cpu": "50m", "memory": "5Mi"}, "limits": {"cpu": "75m", "memory": "10Mi"}}
    first, second, third = made["spec"]["containers"]
    assert first["resources"] == given
    assert second["resources"] == {**given, "requests": {"cpu": "60m", "memory": "5Mi"}}
    # Requests default to the limits before the plugin runs: that is a default of pods.
    expected = {"cpu": "70m", "memory": "7Mi"}
    assert third["resources"] == {"limits": expected, "requests": expected}
    assert made["spec"]["initContainers"][0]["resources"] == given
    assert made["metadata"]["annotations"][ANNOTATION] == (
        "LimitRanger plugin set: cpu, memory request for container c0; cpu, memory limit for container c0; "
        "memory request for container c1; cpu, memory limit for container c1; "
        "cpu, memory request for init container i0; cpu, memory limit for init container i0"
    )
    assert made["status"]["qosClass"] == "Burstable"


def test_complete_pod_is_not_annotated(api: Api) -> None:
    limit(api, "Container", default={"cpu": "75m"})
    assert "annotations" not in create(api, [{"limits": {"cpu": "1"}}]).meta


def test_maximum_is_the_default_limit(api: Api) -> None:
    limit(api, "Container", max={"cpu": "1"}, min={"memory": "1Mi"})
    item = api.get("limitranges", "l").obj["spec"]["limits"][0]
    assert (item["default"], item["defaultRequest"]) == ({"cpu": "1"}, {"cpu": "1", "memory": "1Mi"})
    made = create(api, [{}]).obj["spec"]["containers"][0]["resources"]
    assert made == {"limits": {"cpu": "1"}, "requests": {"cpu": "1", "memory": "1Mi"}}


def test_limits_do_not_apply_to_other_namespaces_or_updates(api: Api) -> None:
    assert create(api, [{"requests": {"cpu": "1"}}]).status == 201
    limit(api, "Pod", max={"cpu": "500m"})
    assert api.patch("pods", "p", {"metadata": {"labels": {"a": "b"}}}).status == 200
    api.create("namespaces", {"metadata": {"name": "other"}})
    assert api.create("pods", api.pod(), namespace="other").status == 201
    assert create(api, [{"requests": {"cpu": "1"}}]).status == 403


def claim_of_size(storage: str, name: str = "c") -> Object:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}}
    return {"metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize(
    ("bounds", "storage", "refused"),
    [
        ({"max": {"storage": "2Gi"}}, "1Gi", ""),
        ({"min": {"storage": "500Mi"}, "max": {"storage": "2Gi"}}, "1Gi", ""),
        (
            {"min": {"storage": "1Gi"}},
            "500Mi",
            "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 500Mi",
        ),
        (
            {"max": {"storage": "1Gi"}},
            "2Gi",
            "maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi",
        ),
    ],
)
def test_storage_of_a_claim_is_limited(api: Api, bounds: Object, storage: str, refused: str) -> None:
    limit(api, "PersistentVolumeClaim", **bounds)
    answer = api.create("persistentvolumeclaims", claim_of_size(storage))
    if refused:
        assert answer.message == f'persistentvolumeclaims "c" is forbidden: {refused}'
    else:
        assert answer.status == 201


def test_growing_claim_is_limited_unless_it_is_being_deleted(api: Api) -> None:
    stored = claim_of_size("1Gi")
    stored["metadata"]["finalizers"] = ["example.com/x"]
    stored["spec"]["storageClassName"] = "grows"
    grows = {"metadata": {"name": "grows"}, "provisioner": "p", "allowVolumeExpansion": True}
    api.send("POST", "/apis/storage.k8s.io/v1/storageclasses", grows)
    api.create("persistentvolumeclaims", stored)
    limit(api, "PersistentVolumeClaim", max={"storage": "2Gi"})
    bigger = {"spec": {"resources": {"requests": {"storage": "3Gi"}}}}
    assert api.patch("persistentvolumeclaims", "c", {"status": {"phase": "Bound"}}, subresource="status").status == 200
    assert api.patch("persistentvolumeclaims", "c", bigger).status == 403
    api.delete("persistentvolumeclaims", "c")
    assert api.patch("persistentvolumeclaims", "c", bigger).status == 200


def test_ratio_of_large_amounts_is_computed(api: Api) -> None:
    limit(api, "Pod", maxLimitRequestRatio={"memory": "2"})
    assert create(api, [{"requests": {"memory": "5E"}, "limits": {"memory": "6E"}}]).status == 201
