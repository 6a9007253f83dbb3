"""Annotations that make a hollow node or pod misbehave, for demonstrations and tests; set by `kubectl annotate`.

On a pod:
    hollow.kcm.dev/reject: "true"               the kubelet rejects it: phase Failed, reason OutOfcpu
    hollow.kcm.dev/ready-after-seconds: "5"     containers become ready this long after they start
    hollow.kcm.dev/unready-after-seconds: "60"  containers become unready this long after they start, and stay so
    hollow.kcm.dev/flap-seconds: "30"           containers alternate between ready and unready with this interval
    hollow.kcm.dev/ready: "false"               containers are never ready
    hollow.kcm.dev/start-seconds: "20"          all probes fail until this long after the start
    hollow.kcm.dev/hang-after-seconds: "60"     all probes fail from then on: a liveness probe kills the container
    hollow.kcm.dev/run-seconds: "30"            containers exit after this time
    hollow.kcm.dev/exit-code: "1"               exit code; without run-seconds the containers exit at once
    hollow.kcm.dev/terminate-after-seconds      time that containers take to stop, limited by the grace period
    hollow.kcm.dev/unpullable-images: "a:2,b*"  images that cannot be pulled, besides the built-in list (images.py)
    hollow.kcm.dev/resize-seconds: "20"         time between the start and the completion of a resize in place
    hollow.kcm.dev/cpu-usage, memory-usage      usage in the pod's metrics; read by the API server, not by the kubelet
                                                (runtime/apiserver/kinds/pod_spec/usage.py)

All except reject, terminate-after-seconds, resize-seconds and unpullable-images can be set for one container:
NAME.hollow.kcm.dev/run-seconds. Without a name they apply to all containers except init containers.

On a node:
    hollow.kcm.dev/silent: "true"               the kubelet does nothing, as if the machine were lost
    hollow.kcm.dev/flap-seconds: "90"           the kubelet alternates between silent and active with this interval
    hollow.kcm.dev/heartbeat-seconds: "60"      interval of heartbeats (at least 1) instead of 10 s
    hollow.kcm.dev/ready: "false"               the kubelet reports NotReady from its next heartbeat on
    hollow.kcm.dev/terminate-after-seconds      default for all pods on the node
    hollow.kcm.dev/devices                      devices that the node publishes; see device_pools.py
    hollow.kcm.dev/unpullable-images            applies to all pods on the node, besides their own annotation
    hollow.kcm.dev/resize-seconds               default for all pods on the node
    hollow.kcm.dev/attach-limit: "25"           number of volumes of the driver hollow.kcm.dev that it can have attached
    hollow.kcm.dev/csi-drivers: "a.io=25,b.io"  further CSI drivers that the kubelet registers, with their limits

On a PersistentVolume, or on a node for all of its volumes:
    hollow.kcm.dev/attach-seconds: "5"          time that attaching takes; also detach-seconds, mount-seconds
    hollow.kcm.dev/attach-error: "text"         attaching fails with this text; also detach-error, mount-error

`kubectl annotate nodes -l topology.kubernetes.io/zone=zone-a hollow.kcm.dev/silent=true` silences all nodes of a zone;
`silent-` undoes it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
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
RESIZE_SECONDS = "hollow.kcm.dev/resize-seconds"
ATTACH_LIMIT = "hollow.kcm.dev/attach-limit"
CSI_DRIVERS = "hollow.kcm.dev/csi-drivers"
ATTACH_SECONDS, ATTACH_ERROR = "hollow.kcm.dev/attach-seconds", "hollow.kcm.dev/attach-error"
DETACH_SECONDS, DETACH_ERROR = "hollow.kcm.dev/detach-seconds", "hollow.kcm.dev/detach-error"
MOUNT_SECONDS, MOUNT_ERROR = "hollow.kcm.dev/mount-seconds", "hollow.kcm.dev/mount-error"
DRIVER = "hollow.kcm.dev"  # CSI driver of the volumes that the hollow provisioner creates

MOST_DRIVERS = 100  # further CSI drivers of a node
_LARGEST_LIMIT = 2**31 - 1
_LONGEST_ERROR = 512  # bytes
_SHOWN = 80  # characters of an invalid value that an error contains
_NODE_SECONDS = (FLAP, HEARTBEAT, TERMINATE_AFTER, RESIZE_SECONDS, ATTACH_SECONDS, DETACH_SECONDS, MOUNT_SECONDS)
_VOLUME_SECONDS = (ATTACH_SECONDS, DETACH_SECONDS, MOUNT_SECONDS)
_POD_SECONDS = (READY_AFTER, UNREADY_AFTER, START_SECONDS, HANG_AFTER, RUN_SECONDS, TERMINATE_AFTER, RESIZE_SECONDS)
_MOST_MESSAGES = 10  # about the invalid annotations of one object
_DRIVER_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")


def is_set(obj: Object, name: str) -> bool:
    """Report whether the annotation is "true"."""
    return annotations_of(obj).get(name) == "true"


class Silence(NamedTuple):
    """Silence of a node.

    until: Unix seconds at which it begins or ends without a change of the annotations, or None.
    """

    silent: bool
    until: float | None


def silence(node: Object, *, now: float) -> Silence:
    """Return the silence of a node at `now` (Unix seconds).

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
    """Return the seconds between two heartbeats of the node."""
    asked = seconds(node, HEARTBEAT)
    return usual if asked is None else max(1.0, asked)


def reports_ready(node: Object) -> bool:
    return annotations_of(node).get(READY) != "false"


def has_annotations(pod: Object) -> bool:
    """Report whether the pod has any annotation of hollow nodes."""
    annotations = annotations_of(pod)
    return bool(annotations) and any(DOMAIN in name for name in annotations)


def unpullable(*asked: Object) -> tuple[str, ...]:
    """Return the patterns of unpullable images in the annotations of these objects."""
    lists = [text for obj in asked if (text := annotations_of(obj).get(UNPULLABLE))]
    return (
        () if not lists else tuple(pattern.strip() for text in lists for pattern in text.split(",") if pattern.strip())
    )


class CsiDriver(NamedTuple):
    """CSI driver that a kubelet registers. limit: number of volumes that can be attached to its node, or None."""

    name: str
    limit: int | None = None


def csi_drivers(node: Object) -> tuple[CsiDriver, ...]:
    """Return the CSI drivers of a node, the hollow driver first.

    Invalid names, invalid limits, and drivers after the first MOST_DRIVERS are omitted.
    """
    annotations = annotations_of(node)
    drivers = {DRIVER: CsiDriver(DRIVER, _limit(annotations.get(ATTACH_LIMIT)))}
    for text in (annotations.get(CSI_DRIVERS) or "").split(","):
        name, _, limit = text.strip().partition("=")
        if len(drivers) > MOST_DRIVERS:
            break
        if name not in drivers and _DRIVER_NAME.fullmatch(name):
            drivers[name] = CsiDriver(name, _limit(limit))
    return tuple(drivers.values())


def has_csi_driver(node: Object, name: str) -> bool:
    return name == DRIVER or any(driver.name == name for driver in csi_drivers(node))


def asked_drivers(node: Object) -> tuple[str | None, str | None]:
    """Return the annotations that determine the CSI drivers, for comparison."""
    annotations = annotations_of(node)
    return annotations.get(ATTACH_LIMIT), annotations.get(CSI_DRIVERS)


def mount_annotations(node: Object) -> tuple[str | None, str | None]:
    """Return the annotations that determine the mounting of volumes, for comparison."""
    annotations = annotations_of(node)
    return annotations.get(MOUNT_SECONDS), annotations.get(MOUNT_ERROR)


def _limit(text: str | None) -> int | None:
    return None if text is None else parse_uint(text.strip(), range(_LARGEST_LIMIT + 1))


def invalid_annotations(node: Object) -> tuple[str, ...]:
    """Return one message for each annotation of a node that is ignored, wholly or in part, because it is invalid.

    The annotation with devices is not included: device_pools.py checks it.
    """
    annotations = annotations_of(node)
    messages = _invalid_seconds(node, _NODE_SECONDS)
    limit = annotations.get(ATTACH_LIMIT)
    if limit is not None and _limit(limit) is None:
        messages.append(f"annotation {ATTACH_LIMIT}: {quoted(limit)} is not a number from 0 to {_LARGEST_LIMIT}")
    if why := _invalid_drivers(annotations.get(CSI_DRIVERS) or ""):
        messages.append(f"annotation {CSI_DRIVERS}: {why}")
    return tuple(messages)


def invalid_volume_annotations(volume: Object) -> tuple[str, ...]:
    """Return one message for each invalid annotation of a PersistentVolume."""
    return tuple(_invalid_seconds(volume, _VOLUME_SECONDS))


def invalid_pod_annotations(pod: Object) -> tuple[str, ...]:
    """Return one message for each invalid annotation of a pod or one of its containers, at most _MOST_MESSAGES."""
    messages = []
    for name, text in annotations_of(pod).items():
        of_pod = name[name.find(DOMAIN) :] if DOMAIN in name else ""
        if of_pod in _POD_SECONDS and as_seconds(text) is None:
            messages.append(f"annotation {shortened(name)}: {quoted(text)} is not a number of seconds >= 0")
        elif of_pod == EXIT_CODE and as_exit_code(text) is None:
            messages.append(f"annotation {shortened(name)}: {quoted(text)} is not a number from 0 to 255")
    return tuple(messages[:_MOST_MESSAGES])


def _invalid_seconds(obj: Object, names: Iterable[str]) -> list[str]:
    annotations = annotations_of(obj)
    return [
        f"annotation {name}: {quoted(annotations[name])} is not a number of seconds >= 0"
        for name in names
        if name in annotations and seconds(obj, name) is None
    ]


def _invalid_drivers(text: str) -> str:
    """Return why the first invalid element of a list of CSI drivers is invalid; "" if all are valid."""
    elements = [element.strip() for element in text.split(",") if element.strip()]
    if len(elements) > MOST_DRIVERS:
        return f"{len(elements)} drivers are more than {MOST_DRIVERS}"
    for element in elements:
        name, equals, limit = element.partition("=")
        if not _DRIVER_NAME.fullmatch(name) or (equals and _limit(limit) is None):
            return f"{quoted(element)} is not DRIVER or DRIVER=LIMIT"
    return ""


def shortened(text: str) -> str:
    """Return the text for an error message, with at most 80 of its characters."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def quoted(text: str) -> str:
    """Return the text for an error message, in quotes and with at most 80 of its characters."""
    return repr(shortened(text))


def longest(name: str, *asked: Object | None) -> float:
    """Return the highest number of seconds that the annotation has on these objects; 0 if none has it."""
    return max((seconds(obj, name) or 0.0 for obj in asked if obj is not None), default=0.0)


def first_text(name: str, *asked: Object | None) -> str:
    """Return the annotation of the first object that has it; "" if none has it.

    Only its first bytes are returned, so that the error of a VolumeAttachment or an event, which may have 1024 bytes,
    can contain it.
    """
    text = next((text for obj in asked if obj is not None and (text := annotations_of(obj).get(name))), "")
    return text.encode()[:_LONGEST_ERROR].decode(errors="ignore")


def annotation_of(pod: Object, name: str, *, container: str, main: bool) -> str | None:
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
