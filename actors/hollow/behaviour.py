"""Annotations that make a hollow node or pod misbehave, for demonstrations and tests; set by `kubectl annotate`.

On a pod:
    hollow.kcm.dev/reject: "true"               its kubelet does not take it: Failed, reason OutOfcpu
    hollow.kcm.dev/ready-after-seconds: "5"     its containers are ready only so long after they have started
    hollow.kcm.dev/unready-after-seconds: "60"  … and no more from then on
    hollow.kcm.dev/flap-seconds: "30"           they are ready for so long, then not ready for as long, by turns
    hollow.kcm.dev/ready: "false"               they are not ready
    hollow.kcm.dev/start-seconds: "20"          they pass none of their probes before
    hollow.kcm.dev/hang-after-seconds: "60"     … and none from then on: a liveness probe has them killed
    hollow.kcm.dev/run-seconds: "30"            its containers end after so long
    hollow.kcm.dev/exit-code: "1"               … with this code; without run-seconds they end at once
    hollow.kcm.dev/terminate-after-seconds      how long its containers take to stop, bounded by its grace period
    hollow.kcm.dev/unpullable-images: "a:2,b*"  images that cannot be pulled, beside those that never can (images.py)
    hollow.kcm.dev/cpu-usage, memory-usage      what its metrics show; the API server reads them, no kubelet does
                                                (runtime/apiserver/kinds/pod_spec/usage.py)

All but reject, terminate-after-seconds and unpullable-images may be for one container: NAME.hollow.kcm.dev/run-seconds.
Those without a name are for all containers but the init containers.

On a node:
    hollow.kcm.dev/silent: "true"               its kubelet neither says nor does anything, as if the machine were gone
    hollow.kcm.dev/flap-seconds: "90"           it is so silent for that long, then speaks for as long, by turns
    hollow.kcm.dev/heartbeat-seconds: "60"      its heartbeats come so far apart (from 1 on), instead of every 10 s
    hollow.kcm.dev/ready: "false"               from its next heartbeat on its kubelet says that it is not ready
    hollow.kcm.dev/terminate-after-seconds      for all of its pods that do not say it themselves
    hollow.kcm.dev/unpullable-images            for all of its pods, beside what they say themselves

All nodes of a zone fall silent with
`kubectl annotate nodes -l topology.kubernetes.io/zone=zone-a hollow.kcm.dev/silent=true`, and come back with `silent-`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from kcm.protocols.integers import parse_uint
from kcm.protocols.objects import Object, annotations_of

DOMAIN = "hollow.kcm.dev/"
REJECT = "hollow.kcm.dev/reject"
READY_AFTER = "hollow.kcm.dev/ready-after-seconds"
RUN_SECONDS = "hollow.kcm.dev/run-seconds"
EXIT_CODE = "hollow.kcm.dev/exit-code"
TERMINATE_AFTER = "hollow.kcm.dev/terminate-after-seconds"
SILENT = "hollow.kcm.dev/silent"
FLAP = "hollow.kcm.dev/flap-seconds"
HEARTBEAT = "hollow.kcm.dev/heartbeat-seconds"
READY = "hollow.kcm.dev/ready"
UNREADY_AFTER = "hollow.kcm.dev/unready-after-seconds"
START_SECONDS = "hollow.kcm.dev/start-seconds"
HANG_AFTER = "hollow.kcm.dev/hang-after-seconds"
UNPULLABLE = "hollow.kcm.dev/unpullable-images"


def is_set(obj: Object, name: str) -> bool:
    """Report whether the annotation is "true"."""
    return annotations_of(obj).get(name) == "true"


class Silence(NamedTuple):
    """Silence of a node. until: Unix seconds at which it changes by time alone, None if it does not."""

    silent: bool
    until: float | None


def silence(node: Object, *, now: float) -> Silence:
    """Return whether a node is silent at `now` (Unix seconds).

    Flapping is aligned to the clock, so nodes with the same period are silent at the same time.
    """
    if is_set(node, SILENT):
        return Silence(True, None)
    turn = seconds(node, FLAP)
    if not turn:
        return Silence(False, None)
    number = now // turn
    return Silence(number % 2 == 1, (number + 1) * turn)


def asked_silence(node: Object) -> tuple[str | None, str | None]:
    """Return the annotations that determine silence, for comparison."""
    annotations = annotations_of(node)
    return annotations.get(SILENT), annotations.get(FLAP)


def heartbeat_interval(node: Object, *, usual: float) -> float:
    """Seconds between two of its heartbeats."""
    asked = seconds(node, HEARTBEAT)
    return usual if asked is None else max(1.0, asked)


def says_ready(node: Object) -> bool:
    return annotations_of(node).get(READY) != "false"


def is_asked(pod: Object) -> bool:
    """Report whether the pod has any annotation of hollow nodes."""
    annotations = annotations_of(pod)
    return bool(annotations) and any(DOMAIN in name for name in annotations)


def unpullable(*asked: Object) -> tuple[str, ...]:
    """Patterns of images, of all these objects."""
    lists = [text for obj in asked if (text := annotations_of(obj).get(UNPULLABLE))]
    return (
        () if not lists else tuple(pattern.strip() for text in lists for pattern in text.split(",") if pattern.strip())
    )


def said_of(pod: Object, name: str, *, container: str, main: bool) -> str | None:
    """Return the value for a container: its own annotation, or the pod's if it is a main container."""
    annotations = annotations_of(pod)
    of_its_own = annotations.get(f"{container}.{name}")
    return annotations.get(name) if of_its_own is None and main else of_its_own


def seconds(obj: Object, name: str) -> float | None:
    """Return the annotation as a finite number >= 0; None if it is missing or invalid."""
    return as_seconds(annotations_of(obj).get(name))


def as_seconds(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def as_exit_code(text: str | None) -> int | None:
    """Return the annotation as an exit code from 0 to 255; None if it is missing or invalid."""
    return parse_uint(text, range(256))
