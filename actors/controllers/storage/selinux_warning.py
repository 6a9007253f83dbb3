"""SELinux warning controller: warns about pods that use the same volume with different SELinux labels or policies.

Such pods cannot run on the same node once volumes are mounted with a label (the feature gate SELinuxMount). Off by
default. Input: pods, claims, volumes, CSIDrivers. Output: events on both pods of a conflict, and a metric with all
present conflicts. Key: "namespace/name" of a pod.

The label of a volume in a pod is that of the containers which mount it. With the policy Recursive, or if the driver of
the volume does not support mounts with a label, its label is "" and its policy Recursive.

Source: kubernetes v1.36 pkg/controller/volume/selinuxwarning; pkg/volume/util/selinux.go. Differences:
- Volumes of plugins that never support such mounts (hostPath, NFS) are ignored: their pods never have conflicts.
- Inline CSI volumes are ignored, because each belongs to one pod. Upstream retries their pods forever.
- A pod that was replaced by another one with its name leaves no conflicts behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kcm.actors.controllers.storage.persistentvolume_binder.migration import DRIVERS, SOURCES, migrated_plugin
from kcm.actors.controllers.storage.shared.claimed_volumes import UnresolvedError, claimed_volume
from kcm.actors.controllers.storage.shared.pods_by_claim import CLAIMS, PODS_BY_CLAIM
from kcm.actors.options import Options
from kcm.actors.reconciliation import (
    Because,
    Change,
    Enqueue,
    Interest,
    Reconciliation,
    RetryQuietly,
    Step,
    Watch,
    itself,
    record,
)
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Queue
from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import Key, Object, encode_object, split_key, uid_of
from kcm.protocols.resources import CSI_DRIVERS, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from kcm.protocols.volumes import key_of_reference, phase_of, volume_name_of
from kcm.runtime.metrics.registry import Family, Metrics
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

QUEUE = "selinux_warning"  # also the source of events
GATE, MOUNT_GATE = "SELinuxChangePolicy", "SELinuxMountReadWriteOncePod"
RECURSIVE, MOUNT_OPTION = "Recursive", "MountOption"
LABEL, POLICY = "SELinuxLabel", "SELinuxChangePolicy"
FINAL = ("Failed", "Succeeded")
PARTS = ("user", "role", "type", "level")
CONFLICTS = Family(
    name="selinux_warning_controller_selinux_volume_conflict",
    kind="gauge",
    help="Conflict between two Pods using the same volume",
    labels=("property", "pod1_namespace", "pod1_name", "pod1_value", "pod2_namespace", "pod2_name", "pod2_value"),
)


def label_of(options: Mapping[str, Any] | None) -> str:
    """Return SELinuxOptions as "user:role:type:level"; "" if all parts are empty."""
    label = ":".join((options or {}).get(part) or "" for part in PARTS)
    return "" if label == ":::" else label


def conflicts(label: str, other: str) -> bool:
    """Report whether two labels conflict.

    An empty user, role or type has a default on the node, so it conflicts with nothing. The level has no default.
    """
    ours, theirs = (text.split(":", 3) + [""] * 4 for text in (label, other))
    if ours[3] != theirs[3]:
        return True
    return any(mine and its and mine != its for mine, its in zip(ours[:3], theirs[:3], strict=True))


def mounted_labels(pod: Mapping[str, Any]) -> dict[str, set[str]]:
    """Return the labels of the containers that mount each volume of a pod, by the volume's name.

    A container without SELinuxOptions has those of the pod; if these are missing as well, it adds no label.
    """
    spec = pod.get("spec") or {}
    of_pod = (spec.get("securityContext") or {}).get("seLinuxOptions")
    found: dict[str, set[str]] = {}
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(kind) or ():
            options = (container.get("securityContext") or {}).get("seLinuxOptions")
            options = of_pod if options is None else options
            for mount in container.get("volumeMounts") or ():
                labels = found.setdefault(mount["name"], set())
                if options is not None:
                    labels.add(label_of(options))
    return found


class VolumeUse(NamedTuple):
    """Label and policy of a volume in one pod."""

    label: str
    policy: str


def use_of(pod: Mapping[str, Any], label: str, *, mounts_label: bool) -> VolumeUse:
    """Return the use of a volume by a pod.

    label: label of the containers that mount it.
    mounts_label: whether the driver of the volume supports mounts with a label.
    """
    policy = ((pod.get("spec") or {}).get("securityContext") or {}).get("seLinuxChangePolicy") or MOUNT_OPTION
    if policy == RECURSIVE or not mounts_label:
        label = ""
    return VolumeUse(label, policy if label else RECURSIVE)


class SELinuxConflict(NamedTuple):
    """Conflict of two pods that use the same volume, as the event on `pod` reports it.

    value, other_value: label or policy of the volume in `pod` and in `other`.
    """

    what: str  # LABEL or POLICY
    pod: Key
    value: str
    other: Key
    other_value: str

    @property
    def message(self) -> str:
        name, same = self.what, "that uses the same volume as this pod with"
        end = "If both pods land on the same node, only one of them may access the volume."
        namespace, other = split_key(self.other)
        if namespace == split_key(self.pod)[0]:
            return f'{name} "{self.value}" conflicts with pod {other} {same} {name} "{self.other_value}". {end}'
        # Nothing about a pod in another namespace is revealed. The space before the value is missing upstream as well.
        return f'{name}"{self.value}" conflicts with another pod {same} a different {name}. {end}'

    @property
    def reversed(self) -> SELinuxConflict:
        return SELinuxConflict(self.what, self.other, self.other_value, self.pod, self.value)


class VolumeUses:
    """Uses of volumes by pods, and their conflicts. Source: volumecache.go."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[Key, VolumeUse]] = {}  # by unique name of the volume
        self._drivers: dict[str, str] = {}  # by unique name of the volume
        self._volumes: dict[Key, set[str]] = {}
        self._conflicts: dict[str, list[SELinuxConflict]] = {}  # by unique name of the volume, in both directions

    def add(self, volume: str, pod: Key, use: VolumeUse, *, driver: str) -> list[SELinuxConflict]:
        """Add the use of a volume by a pod. Return its conflicts in both directions; an empty list for a known use."""
        pods = self._pods.setdefault(volume, {})
        self._drivers.setdefault(volume, driver)
        if pods.get(pod) == use:
            return []
        pods[pod] = use
        self._volumes.setdefault(pod, set()).add(volume)
        found: list[SELinuxConflict] = []
        for other, its in pods.items():
            for conflict in _conflicts_of(pod, use, other, its):
                found += (conflict, conflict.reversed)
        self._forget_conflicts(volume, pod)
        if found:
            self._conflicts.setdefault(volume, []).extend(found)
        return found

    def remove(self, pod: Key) -> None:
        for volume in self._volumes.pop(pod, ()):
            self._forget_conflicts(volume, pod)
            pods = self._pods[volume]
            del pods[pod]
            if not pods:
                del self._pods[volume], self._drivers[volume]

    def pods_of_driver(self, driver: str) -> set[Key]:
        return {pod for volume, its in self._drivers.items() if its == driver for pod in self._pods[volume]}

    def conflicts(self) -> set[SELinuxConflict]:
        return {conflict for found in self._conflicts.values() for conflict in found}

    def _forget_conflicts(self, volume: str, pod: Key) -> None:
        kept = [conflict for conflict in self._conflicts.pop(volume, ()) if pod not in (conflict.pod, conflict.other)]
        if kept:
            self._conflicts[volume] = kept


def _conflicts_of(pod: Key, use: VolumeUse, other: Key, its: VolumeUse) -> Iterator[SELinuxConflict]:
    if its.policy != use.policy:
        yield SELinuxConflict(POLICY, pod, use.policy, other, its.policy)
    if conflicts(use.label, its.label):
        yield SELinuxConflict(LABEL, pod, use.label, other, its.label)


class UsedVolume(NamedTuple):
    """Volume of a pod that can be mounted with a label.

    name: unique name. A volume of a replaced in-tree plugin is named after its source.
    driver: CSI driver; "" for FC and iSCSI, which always support mounts with a label.
    """

    name: str
    driver: str = ""


def used_volume(tables: Tables, pod: Object, volume: Mapping[str, Any]) -> UsedVolume | None:
    """Return a volume of a pod, or None if the pods that use it cannot have conflicts.

    Raises UnresolvedError unless its claim is bound (see claimed_volume).
    """
    if volume.get("persistentVolumeClaim") is None and volume.get("ephemeral") is None:
        return _of_source(volume)
    return _of_source(claimed_volume(tables, pod, volume)["spec"], persistent=True)


def _of_source(spec: Mapping[str, Any], *, persistent: bool = False) -> UsedVolume | None:
    csi = spec.get("csi")
    if csi is not None:
        driver = csi.get("driver") or ""
        return UsedVolume(f"kubernetes.io/csi/{driver}^{csi.get('volumeHandle')}", driver) if persistent else None
    for name in ("fc", "iscsi"):
        if spec.get(name) is not None:
            return UsedVolume(f"kubernetes.io/{name}/{_text(spec[name])}")
    plugin = migrated_plugin({"spec": spec})
    if plugin is None:
        return None
    source = next(spec[name] for name, its in SOURCES.items() if its == plugin)
    return UsedVolume(f"kubernetes.io/csi/{DRIVERS[plugin]}^{_text(source)}", DRIVERS[plugin])


def _text(source: Mapping[str, Any]) -> str:
    return encode_object({name: source[name] for name in sorted(source) if name != "readOnly"}).decode()


class SELinuxWarnings:
    """Reconciler of conflicts. Key: "namespace/name" of a pod, or in the queue of drivers the name of a CSIDriver."""

    def __init__(self, *, tables: Tables, log: FilteringBoundLogger, metrics: Metrics, mounts: bool = True) -> None:
        """Create the reconciler. mounts: whether the feature gate SELinuxMountReadWriteOncePod is enabled."""
        self._tables, self._pods, self._drivers = tables, tables[PODS], tables[CSI_DRIVERS]
        self._log, self._metrics, self._mounts = log, metrics, mounts
        self._uses = VolumeUses()
        self._uids: dict[Key, str] = {}
        self._shown: set[SELinuxConflict] = set()
        metrics.remove_all(CONFLICTS)  # series of an earlier incarnation of the reconciler

    def reconcile(self, key: Key) -> Reconciliation:
        """Add the volumes of a pod, and report their conflicts; or remove a finished or deleted pod. Source: sync."""
        pod = self._pods.get(key)
        if pod is None or phase_of(pod) in FINAL:
            self._uses.remove(key)
            self._uids.pop(key, None)
            self._show()
            return None
        if self._uids.get(key, uid_of(pod)) != uid_of(pod):
            self._uses.remove(key)
        self._uids[key] = uid_of(pod)
        errors = yield from self._add(key, pod)
        self._show()
        if errors:
            raise RetryQuietly("; ".join(errors))
        return None

    def driver_changed(self, driver: Key) -> Reconciliation:
        """Enqueue the pods with volumes of a CSIDriver whose support of mounts with a label has changed."""
        for key in sorted(self._uses.pods_of_driver(driver)):
            yield Enqueue(QUEUE, key)
        return None

    def _add(self, key: Key, pod: Object) -> Step[list[str]]:
        """Record the mounted volumes of a pod. Returns the texts of errors after which the pod is retried.

        Source: syncPod.
        """
        volumes = {volume.get("name"): volume for volume in (pod.get("spec") or {}).get("volumes") or ()}
        errors: list[str] = []
        for name, labels in sorted(mounted_labels(pod).items()):
            if name not in volumes:
                continue
            try:
                used = used_volume(self._tables, pod, volumes[name])
            except UnresolvedError as err:
                yield Because(f"waits until its volumes can be resolved: {err}")
                errors.append(str(err))
                continue
            if not self._mounts:
                labels = set()
            if len(labels) > 1:
                text = f'Volume "{name}" is mounted twice with different SELinux labels inside this pod'
                yield Because(text)
                yield record(PODS, pod, "Warning", "MultipleSELinuxLabels", text)
                errors.append(f"multiple SELinux labels found: {','.join(sorted(labels))}")
                continue
            if used is not None:
                use = use_of(pod, next(iter(labels), ""), mounts_label=self._mounts_label(used))
                yield from self._report(self._uses.add(used.name, key, use, driver=used.driver))
        return errors

    def _mounts_label(self, volume: UsedVolume) -> bool:
        if not self._mounts or not volume.driver:
            return self._mounts
        driver = self._drivers.get(volume.driver)
        return driver is not None and _mounts_label(driver)

    def _report(self, found: Iterable[SELinuxConflict]) -> Step[None]:
        """Record an event for each conflict, up to the first pod that is missing. Source: reportConflictEvents."""
        for conflict in found:
            yield Because(f"{conflict.what} conflicts with pod {conflict.other}, which uses the same volume")
            pod = self._pods.get(conflict.pod)
            if pod is None:
                self._log.info("failed to get first pod for event", v=2, pod=conflict.pod)
                return
            yield record(PODS, pod, "Normal", f"{conflict.what}Conflict", conflict.message)

    def _show(self) -> None:
        """Update the gauge of conflicts: remove series of conflicts that have ended, and add new ones."""
        now = self._uses.conflicts()
        for conflict in self._shown - now:
            self._metrics.remove(CONFLICTS, *_labels(conflict))
        for conflict in now - self._shown:
            self._metrics.gauge(CONFLICTS, *_labels(conflict)).set(1.0)
        self._shown = now


def _labels(conflict: SELinuxConflict) -> tuple[str, ...]:
    ours, theirs = (split_key(key) for key in (conflict.pod, conflict.other))
    return (conflict.what, *ours, conflict.value, *theirs, conflict.other_value)


def _mounts_label(driver: Mapping[str, Any]) -> bool:
    return (driver.get("spec") or {}).get("seLinuxMount") is True


def pod_came_or_went(change: Change, _tables: Tables) -> Iterable[Key]:
    """Enqueue a pod that is new, was deleted, or has finished. Its volumes and labels do not change."""
    old = change.old
    came = old is None or change.deleted or uid_of(old) != uid_of(change.new)
    return (change.key,) if came or phase_of(change.new) in FINAL else ()


def pods_of_bound_claim(change: Change, tables: Tables) -> Iterator[Key]:
    """Enqueue the pods of a claim that has got a volume."""
    name, old = volume_name_of(change.new), change.old
    if (name if old is None else name != volume_name_of(old)) or _entered(change, "Bound"):
        yield from (entry.key for entry in tables[PODS].indexed_entries(CLAIMS, change.key))


def _entered(change: Change, phase: str) -> bool:
    return change.old is not None and phase_of(change.new) == phase != phase_of(change.old)


def pods_of_bound_volume(change: Change, tables: Tables) -> Iterator[Key]:
    """Enqueue the pods of the claim that a volume has been bound to."""
    reference = (change.new.get("spec") or {}).get("claimRef") or {}
    before = ((change.old or {}).get("spec") or {}).get("claimRef") or {}
    if reference.get("uid") and reference["uid"] != before.get("uid"):
        yield from (entry.key for entry in tables[PODS].indexed_entries(CLAIMS, key_of_reference(reference)))


def driver_that_changed(change: Change, tables: Tables) -> Iterable[Key]:
    """Enqueue a CSIDriver that is new, or begins or ends to support mounts with a label."""
    old = change.old
    if change.deleted:
        concerned = _mounts_label(change.new)
    else:
        concerned = old is None or _mounts_label(old) != _mounts_label(change.new)
    return itself(change, tables) if concerned else ()


def _build(context: ControllerContext) -> SELinuxWarnings:
    return SELinuxWarnings(
        tables=context.tables,
        log=context.log,
        metrics=context.metrics,
        mounts=context.options.feature_gates[MOUNT_GATE],
    )


def _is_enabled(options: Options) -> bool:
    return options.feature_gates[GATE]


SEEN = Interest(types=(EventType.ADDED, EventType.MODIFIED))
SPEC = ControllerSpec(
    name="selinux-warning-controller",
    never_blocks=True,
    component=QUEUE,
    on_by_default=False,
    enabled_if=_is_enabled,
    needs=f"--feature-gates={GATE}=true",
    queues=(
        Queue(
            QUEUE,
            watches=(
                Watch(PODS, to=pod_came_or_went, interest=Interest(changed=("phase",))),
                Watch(PERSISTENT_VOLUME_CLAIMS, to=pods_of_bound_claim, interest=SEEN),
                Watch(PERSISTENT_VOLUMES, to=pods_of_bound_volume, interest=SEEN),
            ),
            concurrency=1,
            terminal=(),
        ),
        Queue(
            "selinux_warning_drivers",
            watches=(Watch(CSI_DRIVERS, to=driver_that_changed),),
            reconcile=SELinuxWarnings.driver_changed,
            concurrency=1,
            terminal=(),
            reports_as=QUEUE,
        ),
    ),
    indexes=(PODS_BY_CLAIM,),
    build=_build,
)
