"""Images that a hollow node cannot pull, and the waiting state of a container that needs such an image.

Source: kubernetes v1.36 pkg/kubelet/images/image_manager.go (EnsureImageExists, pullImage), pkg/kubelet/kubelet.go
(imageBackOffPeriod, MaxImageBackOff). Unlike upstream, all other images are present at once and without an event.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from kcm.protocols.bounded_cache import bounded_cache, total_size
from kcm.protocols.messages.events import RecordType
from kcm.protocols.objects import Object
from kcm.runtime.scheduling.backoff import Backoff

BACKOFF = Backoff(first=10.0, most=300.0)
SHOWN = 5.0  # seconds for which the reason is ErrImagePull, before the next sync changes it to ImagePullBackOff
MISSING_TAGS = {"404", "nonexistent", "non-existent"}
# A lower-case repository, optionally followed by a tag and a digest.
_REFERENCE = re.compile(
    r"(?:(?P<host>[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::\d+)?)/)?"
    r"(?P<path>[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*)*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?:@[A-Za-z][\w.+-]*:[0-9a-fA-F]{32,})?"
)


class Pull(NamedTuple):
    """State of a container's image pulls. attempts: number of failed pulls. at: time of the last one, Unix seconds."""

    attempts: int
    at: float


class PodEvent(NamedTuple):
    """Event about a container, or about the pod if `container` is ""."""

    type: RecordType
    reason: str
    message: str
    container: str = ""


class ImageWait(NamedTuple):
    """Container that waits for its image. due: Unix seconds of the next pull or change of the status."""

    state: Object
    due: float | None
    pull: Pull | None
    events: Sequence[PodEvent] = ()


def is_reference(image: str) -> bool:
    return _REFERENCE.fullmatch(image) is not None


@bounded_cache(4096, size=total_size)
def _is_there(image: str, patterns: tuple[str, ...]) -> bool:
    return not image or (is_reference(image) and not missing(image, patterns))


def missing(image: str, patterns: tuple[str, ...] = ()) -> str:
    """Return why an image cannot be pulled, "" if it can.

    patterns: shell patterns of images that are missing in addition to the built-in list.
    """
    found = _REFERENCE.fullmatch(image)
    if found is None:
        return ""
    host = (found["host"] or "").partition(":")[0]
    labels = host.split(".")
    if len(labels) > 1 and "invalid" in (labels[0], labels[-1]):
        return f'failed to resolve reference "{image}": lookup {host}: no such host'
    if found["tag"] in MISSING_TAGS or any(fnmatchcase(image, pattern) for pattern in patterns):
        return f'failed to resolve reference "{image}": {image}: not found'
    return ""


def hindrance(
    container: Mapping[str, Any],
    patterns: tuple[str, ...],
    pull: Pull | None,
    *,
    shown: str,
    now: float,
) -> ImageWait | None:
    """Return why a container waits for its image; None if it is available. shown: the reason in its present status."""
    image = container.get("image") or ""
    if _is_there(image, patterns):
        return None
    if not is_reference(image):
        unparsed = f'couldn\'t parse image name "{image}": invalid reference format'
        why = f'Failed to apply default image tag "{image}": {unparsed}'
        return _for_good("InvalidImageName", why, "InspectFailed", container, shown)
    why = missing(image, patterns)
    if container.get("imagePullPolicy") == "Never":
        absent = f'Container image "{image}" is not present with pull policy of Never'
        return _for_good("ErrImageNeverPull", absent, "ErrImageNeverPull", container, shown)
    return _pulling(container, image, why, pull, shown=shown, now=now)


def _for_good(reason: str, message: str, event: str, container: Mapping[str, Any], shown: str) -> ImageWait:
    name = container["name"]
    events = (PodEvent("Warning", event, message, name), PodEvent("Warning", "Failed", f"Error: {reason}", name))
    return ImageWait(_state(reason, message), None, None, () if shown == reason else events)


def _pulling(
    container: Mapping[str, Any], image: str, why: str, pull: Pull | None, *, shown: str, now: float
) -> ImageWait:
    name = container["name"]
    again = 0.0 if pull is None else pull.at + BACKOFF.delay(pull.attempts - 1)
    if pull is None or now >= again:
        pull = Pull(1 if pull is None else pull.attempts + 1, now)
        events = (
            PodEvent("Normal", "Pulling", f'Pulling image "{image}"', name),
            PodEvent("Warning", "Failed", f'Failed to pull image "{image}": {why}', name),
            PodEvent("Warning", "Failed", "Error: ErrImagePull", name),
        )
        return ImageWait(_state("ErrImagePull", why), now + SHOWN, pull, events)
    if now < pull.at + SHOWN:
        return ImageWait(_state("ErrImagePull", why), pull.at + SHOWN, pull)
    back_off = f'Back-off pulling image "{image}"'
    state = _state("ImagePullBackOff", f"{back_off}: ErrImagePull: {why}")
    if shown == "ImagePullBackOff":
        return ImageWait(state, again, pull)
    backing_off = (
        PodEvent("Normal", "BackOff", back_off, name),
        PodEvent("Warning", "Failed", "Error: ImagePullBackOff", name),
    )
    return ImageWait(state, again, pull, backing_off)


def _state(reason: str, message: str) -> Object:
    return {"waiting": {"reason": reason, "message": message}}
