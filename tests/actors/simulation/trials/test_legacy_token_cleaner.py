"""Invariant of the legacy token cleaner in seeded runs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kcm.actors.controllers.identity.legacy_token_cleaner import INVALID_SINCE
from kcm.actors.reconciliation.actor_names import controller_name
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.campaign.setting import Setting
from kcm.actors.simulation.campaign.settings import EVERYTHING, SETTINGS
from kcm.actors.simulation.invariants.observer import Submitted
from kcm.actors.simulation.trials.identity.legacy_token_cleaner import LONG_AGO, NAME, TRIAL, OnlyMarkedTokensAreDeleted
from kcm.protocols.messages.commands import Delete, Submit
from kcm.protocols.objects import Object, encode_object
from kcm.protocols.pods import pod_facts
from kcm.protocols.resources import PODS, SECRETS, Resource
from kcm.runtime.logs.standard_log import quiet_log
from kcm.runtime.tables.table import Table
from tests.support.objects import pod, stored


def table(resource: Resource[Any], *objects: Object) -> Table:
    made = Table(resource, derive=pod_facts if resource == PODS else None)
    writer = made.claim()
    for obj in objects:
        writer.put(made.make_entry(obj, encode_object(obj)))
    return made


def found(tables: dict[str, Table]) -> list[str]:
    """Return the violations after a deletion of the Secret in version 8."""
    system: Any = SimpleNamespace(tables=tables)
    command = Delete(SECRETS.id, "default/mounted", resource_version="8")
    texts: list[str] = []
    cluster = SimulatedCluster(log=quiet_log())
    cluster.manager(controllers=())
    submit = Submit(controller_name(NAME), 1, "client", 1, (command,))
    OnlyMarkedTokensAreDeleted(cluster).observe(Submitted("manager", system, submit), texts.append)
    return texts


def secrets(version: int) -> Table:
    meta = {"name": "mounted", "namespace": "default", "labels": {INVALID_SINCE: LONG_AGO}}
    return table(SECRETS, stored({"metadata": meta}, version))


@pytest.mark.parametrize("shown", [False, True])
def test_token_of_an_unseen_pod_may_be_deleted(*, shown: bool) -> None:
    """False alarm: the watch of pods was late, and the pod that mounts the Secret was new."""
    pods = [pod("mounting", version=7)] if shown else []
    texts = found({PODS.id: table(PODS, *pods), SECRETS.id: secrets(8)})
    assert texts == (["secret mounted is deleted, but is unlisted or mounted"] if shown else [])


@pytest.mark.parametrize(("versions", "wrong"), [((8, 9), False), ((9, 8), False), ((9, 9), True)])
def test_deleted_version_may_be_in_any_table(versions: tuple[int, int], *, wrong: bool) -> None:
    """False alarm, seed 15000641: another table of Secrets had received a change already."""
    first, other = map(secrets, versions)
    texts = found({PODS.id: table(PODS), SECRETS.id: first, f"{SECRETS.id}?fields=type": other})
    assert bool(texts) is wrong


@pytest.mark.parametrize("setting", [SETTINGS["accounts"], EVERYTHING], ids=lambda setting: setting.name)
def test_managers_are_restarted_after_the_faults(setting: Setting) -> None:
    """False alarm, seed 52000611: a list was stale at the last start, and the cleaner runs once a day."""
    drawn = (TRIAL.actions(setting.scenario(number)) for number in range(5))
    restarts = [[action.at for action in actions if "restarted" in action.text] for actions in drawn]
    assert any(restarts)
    assert all(max(times) > setting.faults for times in restarts if times)
