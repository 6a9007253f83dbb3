"""Small reconciler of ReplicaSets, correct by default, with optional flaws."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from kcm.actors.reconciliation import (
    Change,
    Reconciliation,
    Watch,
    create,
    delete,
    its_controller,
    itself,
    together,
    update,
)
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Queue
from kcm.actors.reconciliation.steps import is_done
from kcm.actors.simulation.campaign.setting import Setting
from kcm.actors.simulation.trials.catalogue import TRIALS
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.outcomes import NotFound, Outcome
from kcm.protocols.objects import Key, Object, is_deleting, key_of, metadata, name_of, owner_reference, uid_of
from kcm.protocols.pods import is_active
from kcm.protocols.resources import PODS, REPLICASETS
from kcm.runtime.faults.vocabulary import Fault
from kcm.runtime.simulation.plan import draw_plan
from kcm.runtime.tables.lister import Lister
from kcm.runtime.tables.tables import Tables
from tests.faults.combined_actions import SCENARIOS, workload_actions


@dataclass(frozen=True, kw_only=True)
class Flaws:
    """Flaws of the reconciler; none by default."""

    no_overlay: bool = False  # own writes are invisible until the watch shows them
    no_uid_check: bool = False  # deletions have no uid precondition
    no_retry: bool = False  # failed commands are not retried
    new_names: bool = False  # a retried creation has a new name
    waits_for_the_end: bool = False  # a pod is replaced only if its termination was observed
    status_first: bool = False  # the status is written before the pods are created, and then trusted


class Ordinals:
    """Reconciler that creates the pods <set>-0 to <set>-n of a ReplicaSet."""

    def __init__(self, context: ControllerContext, flaws: Flaws) -> None:
        tables = context.tables
        if flaws.no_overlay:
            tables = Tables(
                {table.resource.id: tables.overlays()[table.resource.id].table for table in _listers(tables)}
            )
        self._owners, self._pods, self._flaws = tables[REPLICASETS], tables[PODS], flaws
        self._begun: set[Key] = set()
        self._seen_ending: set[Key] = set()
        self._ever_made: set[Key] = set()

    def reconcile(self, key: Key) -> Reconciliation:
        owner = self._owners.get(key)
        if owner is None or is_deleting(owner):
            return None
        wanted, flaws = owner["spec"]["replicas"], self._flaws
        entries = [entry for entry in self._pods.entries_owned_by(uid_of(owner)) if is_active(entry.facts)]
        pods = sorted((self._pods.object_of(entry) for entry in entries), key=name_of)
        status = {
            "replicas": len(pods),
            "readyReplicas": sum(_is_ready(pod) for pod in pods),
            "availableReplicas": sum(_is_ready(pod) for pod in pods),
            "observedGeneration": metadata(owner)["generation"],
        }
        current = {name: value for name, value in (owner.get("status") or {}).items() if name in status}
        observed = current.get("observedGeneration") == status["observedGeneration"]
        if flaws.status_first and observed and current.get("replicas") == wanted and key not in self._begun:
            if len(pods) >= wanted and current != status:
                yield from self._do([update(REPLICASETS, {**owner, "status": status}, subresource="status")])
            return None
        if flaws.status_first:
            self._begun.add(key)
            written = {name: min(value, wanted) for name, value in status.items()}
            written |= {"replicas": wanted, "observedGeneration": status["observedGeneration"]}
            if current != {name: value for name, value in written.items() if name in current or value}:
                yield from self._do([update(REPLICASETS, {**owner, "status": written}, subresource="status")])
        yield from self._do(self._creations(owner, wanted, pods) + self._deletions(wanted, pods))
        self._begun.discard(key)
        if not flaws.status_first and current != {
            name: value for name, value in status.items() if name in current or value
        }:
            yield from self._do([update(REPLICASETS, {**owner, "status": status}, subresource="status")])
        return None

    def _creations(self, owner: Object, wanted: int, pods: Sequence[Object]) -> list[Any]:
        flaws = self._flaws
        form = {
            "apiVersion": "v1",
            "kind": "Pod",
            "spec": owner["spec"]["template"]["spec"],
        }
        meta = {
            "namespace": metadata(owner)["namespace"],
            "labels": owner["spec"]["template"]["metadata"]["labels"],
            "ownerReferences": [owner_reference(owner, api_version="apps/v1", kind="ReplicaSet")],
        }
        if flaws.new_names:
            named: list[Mapping[str, str]] = [{"generateName": f"{name_of(owner)}-"}] * (wanted - len(pods))
        else:
            have = {name_of(pod) for pod in pods}
            ordinals = [f"{name_of(owner)}-{number}" for number in range(wanted)]
            named = [{"name": name} for name in ordinals if name not in have][: max(0, wanted - len(pods))]
        commands = []
        for name in named:
            key = f"{meta['namespace']}/{name.get('name', '')}"
            if flaws.waits_for_the_end and key in self._ever_made and key not in self._seen_ending:
                continue
            self._ever_made.add(key)
            self._seen_ending.discard(key)
            commands.append(create(PODS, {**form, "metadata": {**meta, **name}}))
        return commands

    def _deletions(self, wanted: int, pods: Sequence[Object]) -> list[Any]:
        surplus = pods[wanted:] if len(pods) > wanted else []
        return [delete(PODS, key_of(pod), uid=None if self._flaws.no_uid_check else uid_of(pod)) for pod in surplus]

    def _do(self, commands: list[Any]) -> Reconciliation:
        outcomes: list[Outcome] = yield from together(commands)
        for command, outcome in zip(commands, outcomes, strict=True):
            if is_done(outcome) or isinstance(outcome, NotFound):
                continue
            if self._flaws.no_retry:
                continue
            raise CommandError(command, outcome)
        return None

    def note(self, change: Change) -> None:
        """Record the termination of a pod, for the flaw waits_for_the_end."""
        if not change.deleted and is_deleting(change.new):
            self._seen_ending.add(change.key)


def _listers(tables: Tables) -> list[Lister]:
    return [tables[REPLICASETS], tables[PODS]]


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


# The trial needs the name of this controller, which differs from those of all built-in controllers.
TRIAL = structs.replace(TRIALS["replicaset-controller"], controller="ordinals-controller")


def flawed_setting(flaws: Flaws, *, draw: Callable[..., tuple[Fault, ...]] = draw_plan) -> Setting:
    """Return a setting in which this reconciler manages the ReplicaSets. draw: draws the plan of faults."""
    # With status_first the controller never replaces a pod that a user deletes, even without faults.
    changes = ("scale", "recreated") if flaws.status_first else ("scale", "kill", "recreated")
    built: list[Ordinals] = []

    def build(context: ControllerContext) -> Ordinals:
        built.append(Ordinals(context, flaws))
        return built[-1]

    def noticed(change: Change, tables: Tables) -> Sequence[Key]:
        if built:
            built[-1].note(change)
        return list(its_controller(REPLICASETS)(change, tables))

    watches = (Watch(REPLICASETS, to=itself), Watch(PODS, to=noticed))
    spec = ControllerSpec(name=TRIAL.controller, queues=(Queue(watches=watches),), build=build)
    return Setting(
        controllers=(spec,),
        trials=(TRIAL,),
        actions=workload_actions((REPLICASETS,), changes),
        scenarios=SCENARIOS,
        elections=lambda _scenario: 0,
        draw=draw,
    )
