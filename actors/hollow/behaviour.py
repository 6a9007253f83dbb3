"""Annotations that make a hollow node or pod misbehave, for demonstrations and tests; set by `kubectl annotate`.

On a pod:
    hollow.kcm.dev/reject: "true"               its kubelet does not take it: Failed, reason OutOfcpu
    hollow.kcm.dev/ready-after-seconds: "5"     its containers are ready only so long after they have started
    hollow.kcm.dev/run-seconds: "30"            its containers end after so long
    hollow.kcm.dev/exit-code: "1"               … with this code; without run-seconds they end at once
    hollow.kcm.dev/terminate-after-seconds      how long its containers take to stop, bounded by its grace period

On a node:
    hollow.kcm.dev/silent: "true"               its kubelet neither says nor does anything, as if the machine were gone
    hollow.kcm.dev/terminate-after-seconds      for all of its pods that do not say it themselves

All nodes of a zone fall silent with
`kubectl annotate nodes -l topology.kubernetes.io/zone=zone-a hollow.kcm.dev/silent=true`, and come back with `silent-`.
"""

from __future__ import annotations

import math

from protocols.objects import Object, annotations_of

REJECT = "hollow.kcm.dev/reject"
READY_AFTER = "hollow.kcm.dev/ready-after-seconds"
RUN_SECONDS = "hollow.kcm.dev/run-seconds"
EXIT_CODE = "hollow.kcm.dev/exit-code"
TERMINATE_AFTER = "hollow.kcm.dev/terminate-after-seconds"
SILENT = "hollow.kcm.dev/silent"


def is_set(obj: Object, name: str) -> bool:
    """The annotation says "true"."""
    return annotations_of(obj).get(name) == "true"


def is_silent(node: Object) -> bool:
    return is_set(node, SILENT)


def seconds(obj: Object, name: str) -> float | None:
    """None where the annotation is missing or says no finite number from 0 on."""
    text = annotations_of(obj).get(name)
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def exit_code(pod: Object) -> int | None:
    """0 to 255; None where the annotation is missing or says anything else."""
    text = annotations_of(pod).get(EXIT_CODE)
    if text is None or not text.isdecimal():
        return None
    code = int(text)
    return code if code <= 255 else None
