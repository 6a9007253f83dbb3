"""Behaviour of a container: set by annotations, or predicted from its command line or image, or a default.

The default is to run forever. An init container whose command line is unknown ends at once, and a container of a pod
that runs to completion after a second: a pod of a Job, or a hook of a Helm release.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from kcm.actors.hollow import behaviour
from kcm.actors.hollow.kubelet.commands import ends_without_arguments, is_server, result_of
from kcm.actors.hollow.kubelet.probes import Course, course
from kcm.protocols.objects import Object, annotations_of, controller_of
from kcm.protocols.resources import JOBS


class Script(Struct, frozen=True, kw_only=True):
    """Behaviour of one run of a container. All times are seconds from its start.

    run_seconds: run time; None to run until stopped.
    ready_after, unready_after: limits of the time in which it is ready.
    flap: it is ready and not ready alternately for this time; 0.0 disables that.
    ready: False if it never is.
    start_seconds, hang_after: limits of the time in which it passes its startup and liveness probes.
    """

    run_seconds: float | None = None
    exit_code: int = 0
    ready_after: float = 0.0
    unready_after: float | None = None
    flap: float = 0.0
    ready: bool = True
    start_seconds: float = 0.0
    hang_after: float | None = None

    def answers(self) -> Course:
        """Return the course of its startup and liveness probes."""
        return course(good_from=self.start_seconds, good_until=self.hang_after)

    def serves(self, *, probed: bool) -> Course:
        """Return the course of its readiness probe, or the readiness itself if it has none."""
        if not self.ready:
            return course(good_until=0.0)
        if not probed:
            return course(good_from=self.ready_after, good_until=self.unready_after)
        ends = [at for at in (self.unready_after, self.hang_after) if at is not None]
        return course(good_from=max(self.ready_after, self.start_seconds), good_until=min(ends, default=None))


FOR_EVER = Script()
DONE_AT_ONCE = Script(run_seconds=0.0)
DONE_SOON = Script(run_seconds=1.0)  # long enough to be seen running
HELM_HOOK = "helm.sh/hook"
Scripts = Callable[[int], Script]
"""By how often the container has been restarted."""


def _for_ever(_restarts: int) -> Script:
    return FOR_EVER


def _done_at_once(_restarts: int) -> Script:
    return DONE_AT_ONCE


def _done_soon(_restarts: int) -> Script:
    return DONE_SOON


def runs_to_completion(pod: Object) -> bool:
    """Report whether a pod is expected to end: a Job's, and a hook of a Helm release, such as a test.

    Other pods may run forever whatever their restartPolicy, as `kubectl run --restart=Never --image=nginx` does.
    """
    if pod["spec"].get("restartPolicy", "Always") == "Always":
        return False
    owner = controller_of(pod)
    if owner is not None and owner.kind == JOBS.kind and owner.api_version.partition("/")[0] == JOBS.group:
        return True
    return HELM_HOOK in annotations_of(pod)


def scripts_of(
    pod: Object, container: Mapping[str, Any], *, has_annotations: bool, init: bool, ephemeral: bool = False
) -> Scripts:
    """Return the behaviour of each run by restart count. has_annotations: result of behaviour.has_annotations."""
    image = container.get("image") or ""
    if ephemeral:
        default = _for_ever
    elif init:  # a sidecar is an init container that runs forever
        default = _for_ever if container.get("restartPolicy") == "Always" else _done_at_once
    else:
        default = _done_soon if runs_to_completion(pod) and not is_server(image) else _for_ever
    has_command = container.get("command") or container.get("args") or ends_without_arguments(image)
    if not has_annotations and not has_command:
        return default
    annotated = _annotated(pod, container["name"], main=not init and not ephemeral) if has_annotations else {}

    def script(restarts: int) -> Script:
        ends = annotated if "run_seconds" in annotated else {**_from_command(pod, container, restarts), **annotated}
        return replace(default(restarts), **ends) if ends else default(restarts)

    return script


def _from_command(pod: Object, container: Mapping[str, Any], restarts: int) -> dict[str, Any]:
    result = result_of(container, pod, restarts)
    return {} if result is None else {"run_seconds": result.seconds, "exit_code": result.exit_code}


def _annotated(pod: Object, container: str, *, main: bool) -> dict[str, Any]:
    """Return the fields of Script that annotations set."""

    def annotation(name: str) -> str | None:
        return behaviour.annotation_of(pod, name, container=container, main=main)

    run_seconds = behaviour.as_seconds(annotation(behaviour.RUN_SECONDS))
    code = behaviour.as_exit_code(annotation(behaviour.EXIT_CODE))
    fields: dict[str, Any] = {
        "ready_after": behaviour.as_seconds(annotation(behaviour.READY_AFTER)),
        "unready_after": behaviour.as_seconds(annotation(behaviour.UNREADY_AFTER)),
        "flap": behaviour.as_seconds(annotation(behaviour.FLAP)),
        "ready": False if annotation(behaviour.READY) == "false" else None,
        "start_seconds": behaviour.as_seconds(annotation(behaviour.START_SECONDS)),
        "hang_after": behaviour.as_seconds(annotation(behaviour.HANG_AFTER)),
        "run_seconds": 0.0 if run_seconds is None and code is not None else run_seconds,
        "exit_code": code,
    }
    return {field: value for field, value in fields.items() if value is not None}
