"""Groups of --leader-elect-groups: the built-in ones, and the reader of a file with others.

groups:
- {name: workloads, controllers: [deployment-controller, replicaset-controller]}
- {name: batch, controllers: [job-controller, cronjob-controller], weight: 2}

Controllers share no state in memory: each reads tables, which every replica has, and writes to the API server. So any
controllers may be apart, except those that send requests as one client, whose rate limit they share
(check_shared_clients). The built-in groups separate the controllers that work most, such as those of pods, and
combine those that are idle most of the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kcm.actors.app.controller_plans import check_shared_clients
from kcm.actors.engine.elector.groups import MOST_GROUPS, REST, ControllerGroup, ControllerGroups
from kcm.actors.options import Options
from kcm.actors.reconciliation.specs import ControllerSpec, switched_on
from kcm.runtime.process.yaml_texts import json_type, yaml_complaint

AUTO = "auto"
LARGEST_FILE = 256 * 1024  # bytes
HEAVIEST = 1000.0
FIELDS = {"name", "controllers", "weight"}

# Weights: expected costs beside each other, until they are measured. Of a cluster with Deployments, Jobs and Services.
BUILT_IN_GROUPS = ControllerGroups(
    groups=(
        ControllerGroup(
            name="replicasets",
            controllers=("replicaset-controller", "replicationcontroller-controller"),
            weight=3.0,
        ),
        ControllerGroup(name="deployments", controllers=("deployment-controller",), weight=2.0),
        ControllerGroup(name="sets", controllers=("statefulset-controller", "daemonset-controller"), weight=2.0),
        ControllerGroup(
            name="jobs",
            controllers=(
                "job-controller",
                "cronjob-controller",
                "ttl-after-finished-controller",
                "podgroup-protection-controller",
            ),
            weight=2.0,
        ),
        ControllerGroup(
            name="services",
            controllers=(
                "endpoints-controller",
                "endpointslice-controller",
                "endpointslice-mirroring-controller",
                "service-lb-controller",
                "service-cidr-controller",
            ),
            weight=3.0,
        ),
        ControllerGroup(
            name="garbage", controllers=("garbage-collector-controller", "namespace-controller"), weight=2.0
        ),
        ControllerGroup(name="quotas", controllers=("resourcequota-controller",)),
        ControllerGroup(
            name="policies",
            controllers=(
                "disruption-controller",
                "horizontal-pod-autoscaler-controller",
                "validatingadmissionpolicy-status-controller",
                "storageversion-garbage-collector-controller",
                "storage-version-migrator-controller",
            ),
        ),
        ControllerGroup(
            name="nodes",
            controllers=(
                "node-ipam-controller",
                "node-lifecycle-controller",
                "taint-eviction-controller",
                "cloud-node-lifecycle-controller",
                "node-route-controller",
                "ttl-controller",
                "pod-garbage-collector-controller",
            ),
            weight=2.0,
        ),
        ControllerGroup(
            name="volumes",
            controllers=(
                "persistentvolume-binder-controller",
                "persistentvolume-attach-detach-controller",
                "persistentvolume-expander-controller",
                "persistentvolumeclaim-protection-controller",
                "persistentvolume-protection-controller",
                "volumeattributesclass-protection-controller",
                "ephemeral-volume-controller",
                "selinux-warning-controller",
            ),
        ),
        ControllerGroup(
            name="devices",
            controllers=(
                "resourceclaim-controller",
                "resourcepoolstatusrequest-controller",
                "device-taint-eviction-controller",
            ),
        ),
        ControllerGroup(
            name="identity",
            controllers=(
                "serviceaccount-token-controller",
                "serviceaccount-controller",
                "legacy-serviceaccount-token-cleaner-controller",
                "root-ca-certificate-publisher-controller",
                "kube-apiserver-serving-clustertrustbundle-publisher-controller",
                "clusterrole-aggregation-controller",
                "bootstrap-signer-controller",
                "token-cleaner-controller",
                "certificatesigningrequest-signing-controller",
                "certificatesigningrequest-approving-controller",
                "certificatesigningrequest-cleaner-controller",
                "podcertificaterequest-cleaner-controller",
            ),
        ),
    )
)


class GroupsError(Exception):
    """Invalid file of --leader-elect-groups. The text names the file and what is wrong in it."""


def read_groups(options: Options, specs: Sequence[ControllerSpec]) -> ControllerGroups:
    """Return the groups of --leader-elect-groups. Raises GroupsError. specs: all controllers of the program."""
    chosen = options.leader_election.groups
    groups = BUILT_IN_GROUPS if chosen == AUTO else parse_groups(Path(chosen), specs)
    running = [spec for spec in switched_on(specs, options) if spec.enabled_if(options)]
    try:
        check_shared_clients(groups, running)
    except ValueError as err:
        raise GroupsError(f"{chosen}: {err}") from err
    return groups


def parse_groups(path: Path, specs: Iterable[ControllerSpec]) -> ControllerGroups:
    """Return the groups in a file. Raises GroupsError. specs: the controllers that it may name, also by an alias."""
    from kcm.runtime.process.go_yaml import YamlError, read_first  # few runs need it

    names = {name: spec.name for spec in specs for name in (spec.name, *spec.aliases)}
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST_FILE + 1)
    except OSError as err:
        raise GroupsError(f"cannot read --leader-elect-groups={path}: {err.strerror or err}") from err
    if len(raw) > LARGEST_FILE:
        raise GroupsError(f"{path}: the file is larger than {LARGEST_FILE} bytes")
    try:
        document = read_first(raw, largest=LARGEST_FILE)
    except YamlError as err:
        raise GroupsError(yaml_complaint(path, err)) from err
    if document.repeated:
        raise GroupsError(f"{path}: {document.repeated[0]}")
    try:
        return ControllerGroups(groups=tuple(_groups(document.value, names)))
    except ValueError as err:
        raise GroupsError(f"{path}: {err}") from err


def _groups(value: Any, names: Mapping[str, str]) -> Iterable[ControllerGroup]:
    """Yield the groups of a document. Raises ValueError."""
    if not isinstance(value, dict) or set(value) != {"groups"}:
        raise ValueError("a map with the field 'groups' and no other is expected")
    entries = value["groups"]
    if not isinstance(entries, list) or not entries:
        raise ValueError("groups: a list with at least one group is expected")
    if len(entries) > MOST_GROUPS:
        raise ValueError(f"groups: there are {len(entries)}, and at most {MOST_GROUPS} are supported")
    for number, entry in enumerate(entries):
        yield _group(f"groups[{number}]", entry, names)


def _group(where: str, entry: Any, names: Mapping[str, str]) -> ControllerGroup:
    if not isinstance(entry, dict):
        raise ValueError(f"{where}: a map is expected, not a {json_type(entry)}")
    if unknown := sorted(str(field) for field in entry if field not in FIELDS):
        raise ValueError(f"{where}: unknown field {unknown[0]!r}")
    name, controllers, weight = entry.get("name"), entry.get("controllers"), entry.get("weight", 1.0)
    if not isinstance(name, str) or not name:
        raise ValueError(f"{where}.name: a name is required")
    if name == REST:
        raise ValueError(f"{where}.name: {REST!r} is the group of the controllers that no group names")
    if not isinstance(controllers, list) or not controllers:
        raise ValueError(f"{where}.controllers: group {name!r} has no controllers")
    for controller in controllers:
        if not isinstance(controller, str) or controller not in names:
            raise ValueError(f"{where}.controllers: {controller!r:.80} is not in the list of known controllers")
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight <= HEAVIEST:
        raise ValueError(f"{where}.weight: a number above 0, at most {HEAVIEST:g}, is expected")
    return ControllerGroup(
        name=name, controllers=tuple(names[controller] for controller in controllers), weight=float(weight)
    )
