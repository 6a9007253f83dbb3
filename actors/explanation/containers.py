"""Causes of pods on a node: containers, images, probes, mounts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kcm.actors.explanation.case import MOST_FOLLOWED, Case, condition_line, event_line
from kcm.actors.explanation.cause import Cause
from kcm.actors.explanation.evidence import time_of
from kcm.actors.explanation.refusals import code_of
from kcm.protocols.resources import CONFIGMAPS, SECRETS

WARMUP = 30.0  # seconds in which a container may become ready, whatever its probes allow it
SLOW_START = 60.0  # seconds in which a kubelet starts the containers
SLOW_INIT = 120.0  # seconds after which an init container that still runs is a cause
CRASHED_LATELY = 600.0  # seconds after the end of the last run

PROBE_DEFAULTS = {"initialDelaySeconds": 0, "periodSeconds": 10, "failureThreshold": 3}

LONGEST_MESSAGE = 500  # characters, from the end

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
    if not found:
        yield from _unfinished(case, main)
    if not found and none_started(case):
        yield from _not_started(case)
    if not found:
        yield from _gates(case)


def _unfinished(case: Case, statuses: Sequence[Mapping[str, Any]]) -> Iterator[Cause]:
    """Yield the containers that still run long after others of the pod have completed, which are not restarted."""
    ends = [
        (time_of(end.get("finishedAt")) or case.now, str(status.get("name")))
        for status in statuses
        if (end := (status.get("state") or {}).get("terminated")) and not end.get("exitCode")
    ]
    running = [str(status.get("name")) for status in statuses if (status.get("state") or {}).get("running")]
    if not ends or not running or case.spec.get("restartPolicy") in (None, "Always"):
        return
    at, name = max(ends)
    if case.now - at > SLOW_START:
        yield case.cause(
            "container-does-not-end",
            f"container {', '.join(running[:MOST_FOLLOWED])} still runs, {case.now - at:.0f} s after container {name} "
            "has completed, so the pod does not end",
            "an init container with restartPolicy Always would be stopped after the others have ended",
            since=at,
        )


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
        image = _image_of(case, str(name))
        node = case.spec.get("nodeName")
        yield case.cause(
            "image-never-pull", f"node {node} lacks the image {image} of {what}, and imagePullPolicy is Never", line
        )
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
    container = _spec_of(case, str(status.get("name")))
    if last.get("reason") == "OOMKilled":
        return case.cause(
            "out-of-memory",
            f"{what} {exceeds_memory(case, container)}, after {restarts} restarts",
            line,
            ended,
            since=since,
        )
    unhealthy = case.event("Unhealthy")
    message = str((unhealthy or {}).get("message") or "")
    if message.startswith(("Liveness", "Startup")):
        return case.cause(
            "startup-probe",
            f"{what} is killed by its probe, after {restarts} restarts: {message}",
            line,
            ended,
            *probe_lines(container, message.partition(" ")[0].lower() + "Probe"),
            since=since,
        )
    left = str(last.get("message") or "").strip()
    denied = code_of(left)[0] == "not-permitted"
    account = case.spec.get("serviceAccountName") or "default"
    return case.cause(
        "crash-loop",
        f"{what} ends with exit code {exit_code}, after {restarts} restarts"
        + (f": RBAC denies its service account {account} a right" if denied else ""),
        line,
        ended,
        f"its last message: {left[-LONGEST_MESSAGE:]}" if left else "",
        since=since,
    )


def exceeds_memory(case: Case, container: Mapping[str, Any]) -> str:
    """Return why a container was killed for its memory: by its own limit, that of its pod, or that of its node."""
    for owner, found in (("its", container), ("its pod's", case.spec)):
        limit = ((found.get("resources") or {}).get("limits") or {}).get("memory")
        if limit is not None:
            return f"exceeds {owner} memory limit of {limit}"
    return f"has no memory limit, and exceeds the memory of its node {case.spec.get('nodeName')}"


def end_in_words(case: Case, status: Mapping[str, Any], end: Mapping[str, Any]) -> str:
    """Return how a container has ended, with the limit that it exceeded."""
    text = f"container {status.get('name')} ended with exit code {end.get('exitCode')} ({end.get('reason')})"
    if end.get("reason") == "OOMKilled":
        return f"{text}: it {exceeds_memory(case, _spec_of(case, str(status.get('name'))))}"
    return text


def probe_lines(container: Mapping[str, Any], *kinds: str) -> Iterator[str]:
    """Yield the probes of a container with their thresholds. kinds: "livenessProbe" and others."""
    for kind in kinds:
        if probe := container.get(kind):
            limits = ", ".join(f"{field} {probe.get(field, default)}" for field, default in PROBE_DEFAULTS.items())
            yield f"{kind}: {_probed(probe)}, {limits}"


def _probed(probe: Mapping[str, Any]) -> str:
    http, tcp, grpc = probe.get("httpGet"), probe.get("tcpSocket"), probe.get("grpc")
    if http:
        return f"GET {http.get('path') or '/'} of port {http.get('port')}"
    if tcp or grpc:
        return f"{'TCP' if tcp else 'gRPC'} port {(tcp or grpc or {}).get('port')}"
    command = (probe.get("exec") or {}).get("command") or ("",)
    return f"command {command[0]:.100}"  # its arguments may contain passwords


def readiness_seconds(container: Mapping[str, Any], *, started: bool) -> float:
    """Return how long a new container may take to become ready, by its probes, but at least WARMUP seconds.

    started: its startup probe has succeeded, so that its readiness probe follows.
    """
    kinds = ("startupProbe", "readinessProbe") if started else ("startupProbe",)
    return max(WARMUP, sum(_probe_seconds(container.get(kind) or {}) for kind in kinds))


def _probe_seconds(probe: Mapping[str, Any]) -> float:
    """Return after how many seconds a probe has failed finally; 0 for a missing probe."""
    if not probe:
        return 0.0
    values = {field: float(probe.get(field, default)) for field, default in PROBE_DEFAULTS.items()}
    return values["initialDelaySeconds"] + values["periodSeconds"] * values["failureThreshold"]


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
    container = _spec_of(case, str(status.get("name")))
    is_starting = status.get("started") is False
    allowed = readiness_seconds(container, started=not is_starting)
    lines = (event_line(unhealthy), *probe_lines(container, "startupProbe" if is_starting else "readinessProbe"))
    if seconds <= allowed and not (is_starting and last):
        # Probes fail while a program starts, so a failure within this time is no trouble.
        if seconds > WARMUP:
            yield case.cause(
                "not-available-yet",
                f"{what} has run for {seconds:.0f} s, and its probes allow it {allowed:.0f} s until it is ready",
                *lines,
                since=started,
            )
    elif is_starting:
        yield case.cause(
            "startup-probe", f"{what} has not passed its startup probe in {seconds:.0f} s", *lines, since=started
        )
    else:
        yield case.cause(
            "readiness-probe",
            f"{what} runs and is not ready" + (f": {message}" if message else ""),
            condition_line(case.condition("ContainersReady")),
            *lines,
            since=(case.condition("Ready") or {}).get("lastTransitionTime"),
        )


def _is_sidecar(case: Case, name: str) -> bool:
    return any(
        container.get("name") == name and container.get("restartPolicy") == "Always"
        for container in case.spec.get("initContainers") or ()
    )


def _spec_of(case: Case, name: str) -> Mapping[str, Any]:
    containers = [*(case.spec.get("initContainers") or ()), *(case.spec.get("containers") or ())]
    return next((container for container in containers if container.get("name") == name), {})


def _image_of(case: Case, name: str) -> str:
    return str(_spec_of(case, name).get("image") or "")


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
                "kubelet-silent",
                f"the kubelet of node {case.spec.get('nodeName')} has not started it {seconds:.0f} s after it was "
                "scheduled",
                since=since,
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
