"""Simulated CPU and memory usage of hollow pods, from annotations or requests, as metrics-server would measure it.

    hollow.kcm.dev/cpu-usage: 250m                  for each of the pod's containers
    hollow.kcm.dev/memory-usage: sine(64Mi, 256Mi, 10m)
    NAME.hollow.kcm.dev/cpu-usage: 1                for the container with this name

usage_notation.py describes the values. Without a valid annotation, a container uses a tenth of its requests; without
requests, 1m of CPU and 4Mi of memory.

Samples are taken every 15 s of the clock. As in metrics-server, a container is included from the first sample at least
10 s after its start, and a pod once all of its running containers are.

Source: kubernetes-sigs/metrics-server v0.8 pkg/storage/{pod,types}.go, manifests/base/deployment.yaml (resolution).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from kcm.protocols.conditions import find_condition
from kcm.protocols.objects import Object, annotations_of
from kcm.protocols.quantities import parse_quantity, whole_value
from kcm.protocols.times import parse_time
from kcm.runtime.apiserver.kinds.pod_spec.usage_notation import read_usage
from kcm.runtime.apiserver.rules.cells import items, part

CPU, MEMORY = "cpu", "memory"
ANNOTATIONS = {CPU: "hollow.kcm.dev/cpu-usage", MEMORY: "hollow.kcm.dev/memory-usage"}
USED_SHARE = Decimal("0.1")  # used fraction of the requests
DEFAULT_USAGE = {CPU: Decimal("0.001"), MEMORY: Decimal(4 * 1024 * 1024)}
PAGE = 1024  # bytes; default memory usage is rounded up to a multiple
RESOLUTION = 15  # seconds between two samples
MINIMUM_AGE = 10  # seconds that a container has run before it is measured

Amounts = Mapping[str, Decimal]  # by resource


class Sample(NamedTuple):
    """Measured usage of a pod.

    at: Unix time of the sample in seconds
    window: length of the measured period before it, in seconds
    containers: usage by container name
    """

    at: int
    window: int
    containers: Mapping[str, Amounts]

    @property
    def total(self) -> Amounts:
        return {name: sum((amounts[name] for amounts in self.containers.values()), Decimal(0)) for name in ANNOTATIONS}


def last_sample(now: float) -> int:
    """Return the Unix time of the newest sample in seconds: `now` rounded down to a multiple of RESOLUTION."""
    return int(now // RESOLUTION) * RESOLUTION


def sample_of(pod: Object, now: float) -> Sample | None:
    """Return the newest sample of a pod; None if the pod is not running, is not measured yet, or has usage "none".

    now: Unix time in seconds
    """
    status, spec = part(pod, "status"), part(pod, "spec")
    if status.get("phase") != "Running":
        return None
    at = last_sample(now)
    started = {
        status_["name"]: parse_time(status_["state"]["running"]["startedAt"])
        for status_ in (*items(status, "initContainerStatuses"), *items(status, "containerStatuses"))
        if part(status_, "state", "running").get("startedAt")
    }
    if not started or at - max(started.values()) < MINIMUM_AGE:
        return None
    start = parse_time(status["startTime"]) if status.get("startTime") else min(started.values())
    used = {}
    for name, container, is_main in _containers(spec):
        if name in started:
            amounts = _container_usage(pod, container, is_main=is_main, seconds=at - start)
            if amounts is None:
                return None
            used[name] = amounts
    return Sample(at, int(min(RESOLUTION, at - max(started.values()))), used)


def _containers(spec: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    for field in ("initContainers", "containers"):
        for container in items(spec, field):
            yield container["name"], container, field == "containers"


def _container_usage(pod: Object, container: Mapping[str, Any], *, is_main: bool, seconds: float) -> Amounts | None:
    """Return the usage of a container; None if an annotation is "none".

    is_main: whether annotations for all containers apply, which init containers ignore
    seconds: time since the start of the pod
    """
    annotations, requests = annotations_of(pod), part(container, "resources", "requests")
    amounts = {}
    for name, annotation in ANNOTATIONS.items():
        text = annotations.get(f"{container['name']}.{annotation}") if annotations else None
        if text is None and is_main:
            text = annotations.get(annotation)
        try:
            amount = _default(requests, name) if text is None else read_usage(text)(seconds)
        except ValueError:
            amount = _default(requests, name)
        if amount is None:
            return None
        amounts[name] = _round_up_to_page(amount) if name == MEMORY and amount % 1 else amount
    return amounts


def _default(requests: Mapping[str, Any], name: str) -> Decimal:
    return _share(name, requests[name]) if name in requests else DEFAULT_USAGE[name]


@lru_cache(maxsize=256)
def _share(name: str, request: str) -> Decimal:
    amount = parse_quantity(request) * USED_SHARE
    return amount if name == CPU else _round_up_to_page(amount)


def _round_up_to_page(amount: Decimal) -> Decimal:
    return Decimal(-(-whole_value(amount) // PAGE) * PAGE)


def usage_problems(annotations: Mapping[str, str], field: str) -> Iterator[str]:
    """Yield a warning for each malformed usage annotation. field: path of the annotations, for the text."""
    for key, text in annotations.items():
        if key.endswith(tuple(ANNOTATIONS.values())):
            try:
                read_usage(text)
            except ValueError as err:
                yield f"{field}[{key}]: {err}; the default usage applies"


def is_measured(node: Object | None) -> bool:
    """Report whether metrics of a node and its pods are available: its condition Ready is True or False."""
    if node is None:
        return False
    ready = find_condition(items(part(node, "status"), "conditions"), "Ready")
    return ready is not None and ready.get("status") != "Unknown"
