"""Simulation trial of the legacy token cleaner: users create tokens in all states, and restart managers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kcm.actors.app.system import ControllerSystem
from kcm.actors.controllers.identity.legacy_token_cleaner import (
    INVALID_SINCE,
    LAST_USED,
    SINCE,
    TRACKING,
    LegacyTokenCleanerOptions,
    date_of,
    read_date,
)
from kcm.actors.controllers.identity.token_secrets import ACCOUNT_NAME, TYPE
from kcm.actors.options import Options
from kcm.actors.reconciliation.actor_names import controller_name
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.observer import Fail, Observation, Submitted, only, shown
from kcm.actors.simulation.trials.identity.actions import in_default, restart_managers
from kcm.actors.simulation.trials.scenario import Action, Scenario
from kcm.actors.simulation.trials.settings import options_of
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.messages.commands import Delete
from kcm.protocols.objects import Object, decode_object, labels_of, metadata, split_key
from kcm.protocols.resources import CONFIGMAPS, PODS, SECRETS, SERVICE_ACCOUNTS
from kcm.runtime.tables.entry import Entry

NAME = "legacy-serviceaccount-token-cleaner-controller"
ACCOUNT = "legacy"
REST = 20.0  # seconds after the faults until the last restart, so that no list is stale
LONG_AGO, SOMETIME = "2001-01-01", "soon"  # a date in the past, and an invalid date
# Expected results of a Secret: labelled as invalid, deleted, or unchanged.
MARKED, DELETED, LEFT = "marked", "deleted", "left"
CASES: dict[str, tuple[dict[str, str], str]] = {
    "never-used": ({}, MARKED),
    "used-long-ago": ({LAST_USED: LONG_AGO}, MARKED),
    "badly-marked": ({INVALID_SINCE: SOMETIME}, MARKED),
    "marked-long-ago": ({LAST_USED: LONG_AGO, INVALID_SINCE: LONG_AGO}, DELETED),
    "used-later": ({LAST_USED: "2999-01-01", INVALID_SINCE: LONG_AGO}, LEFT),
    "used-sometime": ({LAST_USED: SOMETIME, INVALID_SINCE: LONG_AGO}, LEFT),
    "mounted": ({INVALID_SINCE: LONG_AGO}, LEFT),
    "unlisted": ({INVALID_SINCE: LONG_AGO}, LEFT),
}


def _actions(scenario: Scenario) -> Iterable[Action]:
    chance = scenario.chance("legacy token actions")
    if chance.random() < 0.4:
        return
    cases = chance.sample(sorted(CASES), chance.randint(2, len(CASES)))
    [at] = scenario.times(chance, 1)

    def do(cluster: SimulatedCluster) -> bool:
        namespace, name = split_key(TRACKING)
        since = {"metadata": {"name": name, "namespace": namespace}, "data": {SINCE: LONG_AGO}}
        cluster.create(CONFIGMAPS, since)
        for case in cases:
            labels = CASES[case][0]
            meta = {"name": case, "labels": labels, "annotations": {ACCOUNT_NAME: ACCOUNT}}
            cluster.create(SECRETS, {"metadata": meta, "type": TYPE})
        mounting = {"name": "token", "secret": {"secretName": "mounted"}}
        container = {"name": "main", "image": "nginx"}
        spec: dict[str, Any] = {"containers": [container], "volumes": [mounting]}
        cluster.create(PODS, {"metadata": {"name": "mounting"}, "spec": spec})
        listed = [{"name": case} for case in cases if case != "unlisted"]
        cluster.create(SERVICE_ACCOUNTS, {"metadata": {"name": ACCOUNT}, "secrets": listed})
        return True

    yield Action(at, f"create a service account with tokens: {', '.join(cases)}", do)
    yield restart_managers(at + 3.0)
    # The last run of the cleaner must begin after the faults: after a stale list, the next run would be a day later.
    yield restart_managers(scenario.disturbed + REST)


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    now = cluster.clock.now()
    for case, (labels, end) in CASES.items():
        secret = cluster.get(SECRETS, in_default(case))
        if secret is None:
            continue
        if end == DELETED:
            yield f"secret {case} still exists"
        elif end == MARKED and read_date(labels_of(secret).get(INVALID_SINCE, "")) is None:
            yield f"secret {case} is not marked at {date_of(now)}: {labels_of(secret)}"
        elif end == LEFT and labels_of(secret) != labels:
            yield f"secret {case} is marked: {labels_of(secret)}"


class OnlyMarkedTokensAreDeleted:
    """Invariant: the cleaner deletes only token Secrets that were marked as invalid long ago and not used since.

    The Secret must also be listed in its service account, and not mounted by a pod in the process's informer cache.
    """

    name = "only tokens marked long ago are cleaned"
    observes = (only(Submitted, controller_name(NAME)),)

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    def observe(self, observation: Observation, fail: Fail) -> None:
        match observation:
            case Submitted(_, system, submit) if submit.sender == controller_name(NAME):
                for command in submit.commands:
                    if isinstance(command, Delete):
                        entry = _version_shown(system, command)
                        if entry is None:
                            fail(f"{command.key} is deleted in a version that no table contains")
                        else:
                            mounts = shown(system, PODS.id, in_default("mounting")) is not None
                            self._check(decode_object(entry.raw), fail, mounts=mounts)

    def _check(self, secret: Object, fail: Fail, *, mounts: bool) -> None:
        period = options_of(self._cluster)[LegacyTokenCleanerOptions].clean_up_period
        day, name = date_of(self._cluster.clock.now() - period), metadata(secret)["name"]
        labels = labels_of(secret)
        if not labels.get(INVALID_SINCE, "9") < day or not labels.get(LAST_USED, "") < day:
            fail(f"secret {name} is deleted, but its labels are {labels} on {day}")
        if name == "unlisted" or (name == "mounted" and mounts):
            fail(f"secret {name} is deleted, but is unlisted or mounted")


def _version_shown(system: ControllerSystem, command: Delete) -> Entry | None:
    """Return the version of a Secret that a deletion names, from any informer cache of Secrets in the process.

    None if no cache contains this version.
    """
    tables = (table for table in system.tables.values() if table.resource.id == command.resource)
    entries = (table.get(command.key) for table in tables)
    return next((entry for entry in entries if entry and str(entry.resource_version) == command.resource_version), None)


def _invariants(cluster: SimulatedCluster, _options: Options) -> Iterable[OnlyMarkedTokensAreDeleted]:
    return (OnlyMarkedTokensAreDeleted(cluster),)


TRIAL = Trial(controller=NAME, actions=_actions, unsettled=_unsettled, invariants=_invariants, deletes=(SECRETS,))
