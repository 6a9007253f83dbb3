"""Causes of pods on a node: containers, images, probes, mounts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kcm.actors.explanation.case import Case, condition_line, event_line
from kcm.actors.explanation.cause import Cause
from kcm.actors.explanation.evidence import time_of
from kcm.protocols.resources import CONFIGMAPS, SECRETS

WARMUP = 30.0  # seconds in which a container may become ready
SLOW_START = 60.0  # seconds in which a kubelet starts the containers
SLOW_INIT = 120.0  # seconds after which an init container that still runs is a cause
CRASHED_LATELY = 600.0  # seconds after the end of the last run

IMAGE = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ImageInspectError", "SignatureValidationFailed"}
)
CANNOT_START = frozenset(
    {"CreateContainerError", "RunContainerError", "CreatePodSandboxError", "StartError", "PostStartHookError"}
)
NOT_STARTED = frozenset({"ContainerCreating", "PodInitializing"})


def causes(case: Case) -> Iterator[Cause]:
    """Yield the causes of a pod that is bound to a node and does not run, or is not ready."""
    initial = case.status.get("initContainerStatuses") or ()
    main = case.status.get("containerStatuses") or ()
    found = False
    for status in initial:
        for cause in _container(case, status, init=True):
            found = True
            yield cause
    for status in main:
        for cause in _container(case, status, init=False):
            found = True
            yield cause
    if not found and none_started(case):
        yield from _not_started(case)
    if not found:
        yield from _gates(case)


def _container(case: Case, status: Mapping[str, Any], *, init: bool) -> Iterator[Cause]:
    state, name = status.get("state") or {}, status.get("name")
    what = f"init container {name}" if init else f"container {name}"
    waiting, terminated = state.get("waiting") or {}, state.get("terminated") or {}
    reason, message = waiting.get("reason") or "", waiting.get("message") or ""
    line = f"{what} waits: {reason} {message}".rstrip()
    last = (status.get("lastState") or {}).get("terminated") or {}
    if reason in IMAGE:
        image = status.get("image") or _image_of(case, str(name))
        secrets = ", ".join(_missing_pull_secrets(case))
        yield case.cause(
            "image-pull",
            f"{what} cannot pull its image {image}"
            + (f": its pull secret {secrets} does not exist" if secrets else ""),
            line,
            event_line(case.event("Failed")),
            since=case.status.get("startTime"),
        )
    elif reason == "InvalidImageName":
        yield case.cause(
            "image-invalid", f"the image of {what} has an invalid name: {_image_of(case, str(name))}", line
        )
    elif reason == "ErrImageNeverPull":
        yield case.cause("image-never-pull", f"the image of {what} is missing, and imagePullPolicy is Never", line)
    elif reason == "CreateContainerConfigError":
        yield case.cause("config-missing", f"{what} lacks its configuration: {message}", line, *_missing(case))
    elif reason in CANNOT_START:
        yield case.cause("container-cannot-start", f"{what} cannot be started: {message or reason}", line)
    elif reason == "CrashLoopBackOff":
        yield _crash(case, what, last, status, line)
    elif terminated and (terminated.get("exitCode") or 0) != 0 and _restarts(case, status, init=init):
        yield _crash(case, what, terminated, status, f"{what} ended with exit code {terminated.get('exitCode')}")
    elif "running" in state:
        yield from _running(case, status, what, last, init=init)


def _crash(case: Case, what: str, last: Mapping[str, Any], status: Mapping[str, Any], line: str) -> Cause:
    restarts, exit_code = status.get("restartCount") or 0, last.get("exitCode")
    ended = (
        f"last run: exit code {exit_code}, reason {last.get('reason')}, ended {last.get('finishedAt')}" if last else ""
    )
    since = last.get("finishedAt")
    if last.get("reason") == "OOMKilled":
        return case.cause(
            "out-of-memory", f"{what} exceeds its memory limit, after {restarts} restarts", line, ended, since=since
        )
    unhealthy = case.event("Unhealthy")
    message = str((unhealthy or {}).get("message") or "")
    if message.startswith(("Liveness", "Startup")):
        return case.cause(
            "startup-probe",
            f"{what} is killed by its probe, after {restarts} restarts: {message}",
            line,
            ended,
            since=since,
        )
    return case.cause(
        "crash-loop", f"{what} ends with exit code {exit_code}, after {restarts} restarts", line, ended, since=since
    )


def _restarts(case: Case, status: Mapping[str, Any], *, init: bool) -> bool:
    policy = case.spec.get("restartPolicy") or "Always"
    return policy == "Always" or (policy == "OnFailure" and bool(status)) or (init and policy != "Never")


def _running(
    case: Case, status: Mapping[str, Any], what: str, last: Mapping[str, Any], *, init: bool
) -> Iterator[Cause]:
    running = (status.get("state") or {}).get("running") or {}
    started = time_of(running.get("startedAt"))
    seconds = 0.0 if started is None else case.now - started
    if init:
        if not _is_sidecar(case, str(status.get("name"))) and seconds > SLOW_INIT:
            yield case.cause("init-container", f"{what} has been running for {seconds:.0f} s", since=started)
        return
    if status.get("ready"):
        return
    ended = time_of(last.get("finishedAt"))
    if last and (last.get("exitCode") or 0) != 0 and ended is not None and case.now - ended < CRASHED_LATELY:
        yield _crash(case, what, last, status, f"{what} runs since {running.get('startedAt')}")
        return
    unhealthy = case.event("Unhealthy")
    message = str((unhealthy or {}).get("message") or "")
    if status.get("started") is False and (seconds > WARMUP or message.startswith("Startup")):
        yield case.cause(
            "startup-probe", f"{what} has not passed its startup probe", event_line(unhealthy), since=started
        )
    elif seconds > WARMUP or message.startswith("Readiness"):
        yield case.cause(
            "readiness-probe",
            f"{what} runs and is not ready" + (f": {message}" if message else ""),
            condition_line(case.condition("ContainersReady")),
            event_line(unhealthy),
            since=(case.condition("Ready") or {}).get("lastTransitionTime"),
        )


def _is_sidecar(case: Case, name: str) -> bool:
    return any(
        container.get("name") == name and container.get("restartPolicy") == "Always"
        for container in case.spec.get("initContainers") or ()
    )


def _image_of(case: Case, name: str) -> str:
    containers = [*(case.spec.get("initContainers") or ()), *(case.spec.get("containers") or ())]
    return next((str(container.get("image")) for container in containers if container.get("name") == name), "")


def none_started(case: Case) -> bool:
    statuses = [*(case.status.get("initContainerStatuses") or ()), *(case.status.get("containerStatuses") or ())]
    return all((status.get("state") or {}).get("waiting") or not status.get("state") for status in statuses)


def _not_started(case: Case) -> Iterator[Cause]:
    """Yield why the kubelet has not started the first container."""
    missing = list(_missing(case))
    mount = case.event("FailedMount", "FailedAttachVolume", "FailedMapVolume")
    devices = case.event("FailedPrepareDynamicResources")
    sandbox = case.event("FailedCreatePodSandBox", "NetworkNotReady")
    since = (case.condition("PodScheduled") or {}).get("lastTransitionTime")
    scheduled = time_of(since) or case.created  # a pod that names its node has no condition
    if missing:
        yield case.cause("config-missing", missing[0], *missing[1:], event_line(mount), since=since)
    if devices is not None:
        yield case.cause("device-preparation", str(devices.get("message")), event_line(devices), since=since)
    if mount is not None and not missing:
        if mount.get("reason") == "FailedAttachVolume":
            yield case.cause(
                "volume-attach", f"a volume cannot be attached: {mount.get('message')}", event_line(mount), since=since
            )
        else:
            yield case.cause(
                "volume-mount", f"a volume cannot be mounted: {mount.get('message')}", event_line(mount), since=since
            )
    if sandbox is not None:
        yield case.cause(
            "container-cannot-start",
            f"the pod's sandbox cannot be created: {sandbox.get('message')}",
            event_line(sandbox),
        )
    if not missing and devices is None and mount is None and sandbox is None:
        if scheduled is not None and case.now - scheduled > SLOW_START:
            seconds = case.now - scheduled
            yield case.cause(
                "kubelet-silent", f"the kubelet has not started it {seconds:.0f} s after it was scheduled", since=since
            )


def _missing_pull_secrets(case: Case) -> list[str]:
    names = [reference.get("name") for reference in case.spec.get("imagePullSecrets") or ()]
    return [name for name in names if name and case.evidence.is_missing(SECRETS, f"{case.namespace}/{name}")]


def _missing(case: Case) -> Iterator[str]:
    """Yield which ConfigMaps and Secrets of the pod do not exist."""
    for resource, name, optional in dict.fromkeys(_configuration(case)):
        if not optional and case.evidence.is_missing(resource, f"{case.namespace}/{name}"):
            yield f"{resource.kind} {name} does not exist"


def _configuration(case: Case) -> Iterator[tuple[Any, str, bool]]:
    for volume in case.spec.get("volumes") or ():
        sources = [volume, *((volume.get("projected") or {}).get("sources") or ())]
        for source in sources:
            if name := (source.get("configMap") or {}).get("name"):
                yield CONFIGMAPS, name, bool(source["configMap"].get("optional"))
            secret = source.get("secret") or {}
            if name := secret.get("secretName") or secret.get("name"):
                yield SECRETS, name, bool(secret.get("optional"))
    for container in (*(case.spec.get("initContainers") or ()), *(case.spec.get("containers") or ())):
        references = [(source, "configMapRef", "secretRef") for source in container.get("envFrom") or ()]
        references += [
            (variable.get("valueFrom") or {}, "configMapKeyRef", "secretKeyRef")
            for variable in container.get("env") or ()
        ]
        for source, config_map, secret in references:
            for field, resource in ((config_map, CONFIGMAPS), (secret, SECRETS)):
                if name := (source.get(field) or {}).get("name"):
                    yield resource, name, bool(source[field].get("optional"))


def _gates(case: Case) -> Iterator[Cause]:
    for gate in case.spec.get("readinessGates") or ():
        type = gate.get("conditionType")
        if case.condition_is(type, "True") is None and case.condition_is("ContainersReady", "True") is not None:
            yield case.cause(
                "readiness-gate",
                f"the readiness gate {type} is not met",
                condition_line(case.condition(type)) or f"no condition {type}",
                since=(case.condition("Ready") or {}).get("lastTransitionTime"),
            )
