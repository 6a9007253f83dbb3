"""Device requests of extended resources. The tables are upstream's of extendeddynamicresources_test.go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kcm.actors.hollow.scheduler.devices.extended_resources import ExtendedRequests, extended_requests
from kcm.protocols.objects import Object

GPU, GPU1, GPU_INIT = "example.com/gpu", "example.com/gpu1", "example.com/gpuinit"
IMPLICIT = "deviceclass.resource.kubernetes.io/classInit"
CLASSES = {GPU: "class", GPU1: "class1", GPU_INIT: "classInit", IMPLICIT: "classInit"}


def container(name: str, amounts: Mapping[str, str], **fields: str) -> Object:
    return {"name": name, "resources": {"requests": dict(amounts)}, **fields}


def pod(*containers: Mapping[str, str], init: Sequence[Object] = ()) -> Object:
    made = [container(f"con{number}", amounts) for number, amounts in enumerate(containers)]
    return {"spec": {"initContainers": list(init), "containers": made}}


def sidecar(name: str, amounts: Mapping[str, str]) -> Object:
    return container(name, amounts, restartPolicy="Always")


def found(pod: Object, *resources: str, without: Sequence[str] = ()) -> ExtendedRequests:
    classes = {name: known for name, known in CLASSES.items() if name not in without}
    return extended_requests(pod, resources, lambda name: classes.get(name, ""))


POD = pod({GPU: "1", GPU1: "2"})
TWO_CONTAINERS = pod({GPU: "1"}, {GPU1: "2"})
INIT = pod({GPU: "1"}, init=[container("init-con0", {GPU_INIT: "2"})])
TWO_INIT = pod({GPU: "1"}, init=[container("init-con0", {GPU_INIT: "1"}), container("init-con1", {GPU_INIT: "2"})])
BESIDE_SIDECAR = pod(
    {GPU: "1"},
    init=[
        container("init-con0", {GPU_INIT: "1"}),
        sidecar("sidecar-con1", {GPU_INIT: "1"}),
        container("init-con2", {GPU_INIT: "2"}),
    ],
)
BOTH_FORMS = pod({GPU: "1"}, init=[container("init-con0", {GPU_INIT: "1"}), container("init-con1", {IMPLICIT: "2"})])
ONLY_INIT = pod(init=[container("init-con0", {GPU_INIT: "1", IMPLICIT: "2"})])

# pod, extended resources, resources without a class, (name, class, count) of each request
REQUESTS: dict[str, tuple[Object, Sequence[str], Sequence[str], Any]] = {
    "nil": (POD, (), (), []),
    "one resource match": (POD, (GPU,), (), [("container-0-request-0", "class", 1)]),
    "one resource match, one resource not match": (
        POD,
        (GPU, GPU1),
        (GPU1,),
        [("container-0-request-0", "class", 1)],
    ),
    "two resources match": (
        POD,
        (GPU, GPU1),
        (),
        [("container-0-request-0", "class", 1), ("container-0-request-1", "class1", 2)],
    ),
    "two containers match": (
        TWO_CONTAINERS,
        (GPU, GPU1),
        (),
        [("container-0-request-0", "class", 1), ("container-1-request-0", "class1", 2)],
    ),
    "one init container, one regular container": (
        INIT,
        (GPU, GPU_INIT),
        (),
        [("container-0-request-0", "classInit", 2), ("container-1-request-0", "class", 1)],
    ),
    "two init containers, one regular container": (
        TWO_INIT,
        (GPU, GPU_INIT),
        (),
        [("container-1-request-0", "classInit", 2), ("container-2-request-0", "class", 1)],
    ),
    "three init containers, one sidecar, one regular container": (
        BESIDE_SIDECAR,
        (GPU, GPU_INIT),
        (),
        [
            ("container-1-request-0", "classInit", 1),
            ("container-2-request-0", "classInit", 2),
            ("container-3-request-0", "class", 1),
        ],
    ),
    "a fraction is not requested": (pod({GPU: "1500m"}), (GPU,), (), []),
    "an init container uses the devices of a container": (
        pod({GPU: "2"}, init=[container("init-con0", {GPU: "2"})]),
        (GPU,),
        (),
        [("container-1-request-0", "class", 2)],
    ),
    "an init container needs more than a container": (
        pod({GPU: "1"}, init=[container("init-con0", {GPU: "3"})]),
        (GPU,),
        (),
        [("container-0-request-0", "class", 2), ("container-1-request-0", "class", 1)],
    ),
}


@pytest.mark.parametrize("case", REQUESTS)
def test_requests(case: str) -> None:
    given, resources, without, expected = REQUESTS[case]
    assert [
        (request["name"], request["exactly"]["deviceClassName"], request["exactly"]["count"])
        for request in found(given, *resources, without=without).requests
    ] == expected


# pod, extended resources, (container, resource, request) of each mapping, sorted by request and container
MAPPINGS: dict[str, tuple[Object, Sequence[str], Any]] = {
    "one container, two requests": (
        POD,
        (GPU, GPU1),
        [("con0", GPU, "container-0-request-0"), ("con0", GPU1, "container-0-request-1")],
    ),
    "one container, one explicit and one implicit request": (
        ONLY_INIT,
        (GPU, GPU_INIT, IMPLICIT),
        [("init-con0", IMPLICIT, "container-0-request-0"), ("init-con0", GPU_INIT, "container-0-request-1")],
    ),
    "two containers, two requests": (
        TWO_CONTAINERS,
        (GPU, GPU1),
        [("con0", GPU, "container-0-request-0"), ("con1", GPU1, "container-1-request-0")],
    ),
    "one init container, one regular container, one request": (
        INIT,
        (GPU, GPU_INIT),
        [("init-con0", GPU_INIT, "container-0-request-0"), ("con0", GPU, "container-1-request-0")],
    ),
    "three containers (two are init container), two requests": (
        TWO_INIT,
        (GPU, GPU_INIT),
        [
            ("init-con0", GPU_INIT, "container-1-request-0"),
            ("init-con1", GPU_INIT, "container-1-request-0"),
            ("con0", GPU, "container-2-request-0"),
        ],
    ),
    "three containers (two are init container), both explicit and implicit resources": (
        BOTH_FORMS,
        (GPU, GPU_INIT, IMPLICIT),
        [
            ("init-con0", GPU_INIT, "container-0-request-0"),
            ("init-con1", IMPLICIT, "container-1-request-0"),
            ("con0", GPU, "container-2-request-0"),
        ],
    ),
    "four containers (two are init container, one sidecar), three requests": (
        BESIDE_SIDECAR,
        (GPU, GPU_INIT),
        [
            ("init-con0", GPU_INIT, "container-1-request-0"),
            ("sidecar-con1", GPU_INIT, "container-1-request-0"),
            ("init-con2", GPU_INIT, "container-2-request-0"),
            ("con0", GPU, "container-3-request-0"),
        ],
    ),
}


@pytest.mark.parametrize("case", MAPPINGS)
def test_mappings(case: str) -> None:
    given, resources, expected = MAPPINGS[case]
    mappings = found(given, *resources).mappings
    assert (
        sorted(
            ((each["containerName"], each["resourceName"], each["requestName"]) for each in mappings),
            key=lambda each: (each[2], each[0]),
        )
        == expected
    )
