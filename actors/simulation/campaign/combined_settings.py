"""Combination of several settings of simulated runs into one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kcm.actors.options import Options
from kcm.actors.reconciliation.specs import ControllerSpec
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.campaign.setting import Setting
from kcm.actors.simulation.invariants.observer import Invariant
from kcm.actors.simulation.trials.scenario import Scenario


def combined(name: str, *parts: Setting) -> Setting:
    """Return a setting that combines several settings: their controllers, invariants, conditions and preparations.

    The new setting has the options that any of them sets (the last one takes precedence), the fleet with the most
    nodes, and the longest times `acting`, `faults` and `settled`. Trials, actions, draw, elections and scenarios have
    their defaults; set them with `msgspec.structs.replace`.

    Raises ValueError if a part has an `outside`, or controllers that are a function of it.
    """
    if [part.name for part in parts if part.outside is not None or callable(part.controllers)]:
        raise ValueError(f"{name}: a setting with `outside` cannot be combined with other settings")
    specs = [spec for part in parts for spec in part.specs(None)]

    def invariants(cluster: SimulatedCluster, scenario: Scenario) -> Sequence[Invariant]:
        return [invariant for part in parts for invariant in part.invariants(cluster, scenario)]

    def unsettled(cluster: SimulatedCluster) -> Iterator[str]:
        for part in parts:
            yield from part.unsettled(cluster)

    def end_state(cluster: SimulatedCluster) -> Mapping[str, Any]:
        return {key: value for part in parts for key, value in part.end_state(cluster).items()}

    def prepare(cluster: SimulatedCluster) -> None:
        for part in parts:
            part.prepare(cluster)

    return Setting(
        name=name,
        controllers=tuple({spec.name: spec for spec in specs}.values()),
        invariants=invariants,
        unsettled=unsettled,
        end_state=end_state,
        prepare=prepare,
        options=lambda scenario: _merged(part.options(scenario) for part in parts),
        fleet=lambda scenario: max((part.fleet(scenario) for part in parts), key=lambda fleet: fleet.nodes),
        pod=lambda scenario: {key: value for part in parts for key, value in part.pod(scenario).items()},
        heartbeats=_any_true([part.heartbeats for part in parts]),
        steady=all(part.steady for part in parts),
        cloud=any(part.cloud for part in parts),
        devices=any(part.devices for part in parts),
        acting=max(part.acting for part in parts),
        faults=max(part.faults for part in parts),
        settled=max(part.settled for part in parts),
    )


def switched_on_by_name(specs: Iterable[ControllerSpec]) -> str:
    """Return the --controllers flag that enables all these controllers, including those that are off by default."""
    return f"--controllers={','.join(['*', *(spec.name for spec in specs if not spec.on_by_default)])}"


def _merged(given: Iterable[Options | None]) -> Options:
    merged = Options()
    for options in given:
        if options is not None:
            merged = options if not merged.given else merged.with_given_of(options)
    return merged


def _any_true(answers: Iterable[bool | None]) -> bool | None:
    """Return whether any value is True; None if all values are None."""
    values = [answer for answer in answers if answer is not None]
    return any(values) if values else None
