"""Reports state when each concerned key was synced last, and why it will not be synced again."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from kcm.actors.reconciliation import Reconciliation, RequeueAfter, TerminalError, Watch, get_live, itself, perform
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Queue
from kcm.actors.simulation.campaign.checks import check
from kcm.actors.simulation.campaign.failure_reports import recorded, report
from kcm.actors.simulation.campaign.last_syncs import MOST, KeyState, lines
from kcm.actors.simulation.campaign.setting import Setting
from kcm.actors.simulation.trials.actions import create, merge
from kcm.actors.simulation.trials.scenario import Action
from kcm.protocols.resources import CONFIGMAPS
from kcm.runtime.faults.vocabulary import parse_faults

Ending = Callable[[], Any]
TITLE = "last syncs and pending syncs of the objects concerned:"


class Reader:
    def __init__(self, context: ControllerContext, ending: Ending) -> None:
        self._maps, self._ending = context.tables[CONFIGMAPS], ending

    def reconcile(self, key: str) -> Reconciliation:
        if self._maps.get(key) is None:
            return None
        yield from perform(get_live(CONFIGMAPS, key))
        return self._ending()


def reading(ending: Ending) -> ControllerSpec:
    return ControllerSpec(
        name="reader",
        queues=(Queue(watches=(Watch(CONFIGMAPS, to=itself),)),),
        build=lambda context: Reader(context, ending),
    )


def never(*specs: ControllerSpec, actions: tuple[Action, ...] = (), text: str = "ConfigMap blog is wrong") -> Setting:
    """Return a setting whose runs do not converge."""
    made = create(1.0, CONFIGMAPS, {"metadata": {"name": "blog"}})
    other = create(1.5, CONFIGMAPS, {"metadata": {"name": "other"}})
    return Setting(
        controllers=specs,
        actions=lambda _: (made, other, *actions),
        elections=lambda _: 0,
        faults=8.0,
        settled=12.0,
        unsettled=lambda _: (text,),
    )


def section(setting: Setting, faults: str = "") -> list[str]:
    """Return the lines of the report about last syncs."""
    text = report(recorded(check(1, parse_faults(faults), setting=setting), setting=setting))
    assert TITLE in text, text
    found = text.partition(f"{TITLE}\n")[2].partition("\nlatest messages")[0].splitlines()
    return [re.sub(r"\d+\.\d{3} s", "T s", line.strip()) for line in found]


def failing(error: Exception) -> Ending:
    def fail() -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("ending", "line"),
    [
        (lambda: None, "returned None, no retry pending, no event since"),
        (lambda: RequeueAfter(1000.0), "returned RequeueAfter(1000), next sync due at T s"),
        (failing(TerminalError("is bad")), "raised TerminalError: is bad, no retry pending, no event since"),
    ],
    ids=["it returned None", "it will be synced later", "it was given up"],
)
def test_reason_that_a_key_is_not_synced_again_is_stated(ending: Ending, line: str) -> None:
    if "due" in line:
        line += ", no event since"
    assert section(never(reading(ending))) == [f"reader default/blog: last sync at T s to T s, {line}"]


def test_sync_that_waits_for_an_outcome_is_stated_with_the_command() -> None:
    touched = merge(6.0, CONFIGMAPS, "default/blog", {"data": {"a": "1"}})
    found = section(
        never(reading(lambda: None), actions=(touched,)), "command-delayed 5..100 seconds=90 process=manager"
    )
    assert found == ["reader default/blog: in work since T s, waits for the outcome of get configmaps default/blog"]


def test_change_that_the_watch_has_not_shown_is_stated_with_both_versions() -> None:
    touched = merge(6.0, CONFIGMAPS, "default/blog", {"data": {"a": "1"}})
    (line,) = section(
        never(reading(lambda: None), actions=(touched,)), "watch-lagging 5..100 seconds=90 resource=configmaps"
    )
    assert re.fullmatch(
        r"reader default/blog: last sync at T s to T s, returned None, no retry pending, no event since, "
        r"its table has version \d+ of the object, the server \d+",
        line,
    )


def test_controller_that_is_not_ready_is_stated_with_the_tables_that_it_waits_for() -> None:
    (line,) = section(never(reading(lambda: None)), "partition 0..100 process=manager")
    assert re.fullmatch(
        r"reader default/blog: never synced, no retry pending, no event, "
        r"controller is not ready, waits for the tables of v1/configmaps, "
        r"its table does not have the object, the server has version \d+",
        line,
    )


def state(key: str, *, process: str = "manager", kind: str = "", is_ready: bool = True) -> KeyState:
    return KeyState(process, "c", "c", key, kind, is_ready, f"{process} {kind} {key}")


def test_keys_of_a_named_kind_come_first() -> None:
    states = [state("default/db", kind="Service"), state("default/db", kind="StatefulSet"), state("default/other")]
    assert lines(states, {"StatefulSet", "db"}) == ["manager StatefulSet default/db", "manager Service default/db"]
    assert lines(states, {"default/other"}) == ["manager  default/other"]


def test_standby_is_omitted_if_another_process_is_active() -> None:
    works, standby = state("default/db"), state("default/db", process="manager-2", is_ready=False)
    assert lines([works, standby], {"db"}) == ["manager  default/db"]
    assert lines([standby], {"db"}) == ["manager-2  default/db"]


def test_many_keys_are_cut_short() -> None:
    found = lines(
        [state(f"default/db-{number}") for number in range(MOST + 3)], {f"db-{number}" for number in range(99)}
    )
    assert len(found) == MOST + 1
    assert found[-1] == "(3 more)"


def test_report_without_names_omits_the_election() -> None:
    setting = replace(never(reading(lambda: None), text="it is wrong"), elections=lambda _: 1)
    text = report(recorded(check(1, (), setting=setting), setting=setting))
    happened = text.partition("latest messages about the objects concerned:\n")[2]
    assert "no message is about the objects that the violations name" in happened
    assert " → " in happened
    assert "elector" not in happened
    assert "kube-controller-manager" not in happened
    assert TITLE not in text


def test_report_about_an_unmentioned_object_omits_the_election() -> None:
    setting = replace(never(), elections=lambda _: 1)
    text = report(recorded(check(1, (), setting=setting), setting=setting))
    assert "no message is about the objects that the violations name" in text
    assert "elector" not in text
    assert TITLE not in text
