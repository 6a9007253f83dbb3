"""Seeded runs of all settings with all kinds of faults.

KCM_SEEDS (bin/run-tests --seeds N) is the number of seeds of the setting `workloads`; `everything` runs a fortieth of
it, each other setting a tenth. The seeds are distributed over a few tests, so that several workers share them. They are
the same in every run of the suite: the report of a failure contains the command that replays it.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest
from msgspec import structs

from kcm.actors.simulation.campaign.domain_settings import NODES_SETTING
from kcm.actors.simulation.campaign.many import run_campaign
from kcm.actors.simulation.campaign.runs import run
from kcm.actors.simulation.campaign.setting import USUAL, Setting
from kcm.actors.simulation.campaign.settings import EVERYTHING, SETTINGS
from kcm.runtime.faults.vocabulary import OF_CALLS, OF_WEBHOOKS, Fault, FaultKind
from kcm.runtime.simulation.plan import draw_fault
from tests.support.examples import test_certificate

SEEDS = int(os.environ.get("KCM_SEEDS", "16"))
PARTS = 8
SHARES = {USUAL.name: 1, EVERYTHING.name: 40}  # divisors of the number of seeds by setting; 10 for other settings


def parts() -> Iterator[tuple[Setting, range]]:
    """Yield each setting with the seeds of each of its tests."""
    for setting in SETTINGS.values():
        number = max(1, SEEDS // SHARES.get(setting.name, 10))
        for part in range(min(number, PARTS)):
            yield setting, range(part, number, PARTS)


@pytest.mark.timeout(60 + SEEDS * 5)
@pytest.mark.parametrize(
    ("setting", "seeds"),
    [
        # `everything` is slow: `swarm` has all controllers, too, each seed with some of the trials.
        pytest.param(
            setting, seeds, id=f"{setting.name}-{seeds.start}", marks=[pytest.mark.slow] * (setting is EVERYTHING)
        )
        for setting, seeds in parts()
    ],
)
def test_seeded_runs_violate_no_invariant(setting: Setting, seeds: range) -> None:
    campaign = run_campaign(setting, seeds)
    campaign.must_hold()
    assert campaign.runs == len(seeds) > 0


@pytest.mark.slow
# A slow webhook delays the writes of controllers only, and there is no setting with such writes:
# tests/actors/simulation/test_webhooks.py.
@pytest.mark.parametrize("kind", [kind for kind in FaultKind if kind is not FaultKind.WEBHOOK_SLOW])
def test_every_kind_of_fault_strikes_within_a_few_seeds(kind: FaultKind) -> None:
    # A campaign that injects no faults finds nothing.
    faults, setting = plan_with(kind), USUAL
    if kind in OF_CALLS:
        setting = NODES_SETTING
    if kind in OF_WEBHOOKS:
        setting = test_certificate.SETTING
    assert any(run(seed, faults, setting=setting).struck[kind] for seed in range(4)), faults


def plan_with(kind: FaultKind) -> tuple[Fault, ...]:
    """Return a fault of this kind, and further faults that give it an opportunity."""
    drawn = draw_fault(random.Random(str(kind)), kind, seconds=30.0, process="manager*", actors=["*"])
    until = 140.0 if kind is FaultKind.BOOKMARKS_WITHHELD else 20.0
    fault = structs.replace(drawn, start=1.2, until=until, rate=1.0, most=3, resource="*")
    match kind:
        case FaultKind.LIST_STALE:
            crash = Fault(kind=FaultKind.PROCESS_CRASHED, start=6.0, until=8.0)
            return (crash, structs.replace(fault, seconds=5.0))
        case FaultKind.WATCH_REWOUND:
            return (Fault(kind=FaultKind.SERVER_AWAY, start=6.0, until=7.0), fault)
    return (fault,)
