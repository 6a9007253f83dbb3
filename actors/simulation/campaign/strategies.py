"""User actions and fault plans as hypothesis strategies. Hypothesis finds the simplest failing example.

@given(user_actions(SETTING), plans(SETTING))
@settings(deadline=None)
def test_any_user_actions(actions: UserActions, plan: Plan) -> None:
    must_hold(actions, faults=plan)
"""

from __future__ import annotations

import random
from collections.abc import Iterable

from kcm.actors.simulation.campaign.setting import USUAL, Setting
from kcm.actors.simulation.campaign.user_actions import UserActions
from kcm.actors.simulation.trials.scenario import Action
from kcm.runtime.faults.vocabulary import Fault, format_faults

try:
    from hypothesis import strategies as st
except ImportError as err:
    raise ImportError("user_actions and plans are strategies of hypothesis: pip install hypothesis") from err

MOST_SCENARIOS = 1 << 16
MOST_SEEDS = 1 << 16


class Plan(tuple[Fault, ...]):
    """Faults to inject in a run. The repr is a Python expression that can be copied into a test."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f'parse_faults("{format_faults(self)}")'


def user_actions(
    setting: Setting = USUAL, *, actions: st.SearchStrategy[Iterable[Action]] | None = None
) -> st.SearchStrategy[UserActions]:
    """Return a strategy of user actions: hypothesis draws all values that the setting's trials draw by chance.

    actions: strategy that replaces the actions of the trials. It must be possible to carry out its actions without
        faults.
    """
    most = MOST_SCENARIOS if setting.scenarios is None else setting.scenarios

    @st.composite
    def drawn(draw: st.DrawFn) -> UserActions:
        number = draw(st.integers(0, most - 1))
        if actions is not None:
            return UserActions(setting, number, draw(actions))

        def chance(_what: str) -> random.Random:
            return draw(st.randoms(use_true_random=False))

        return UserActions(setting, number, setting.composed(number).actions(setting.scenario(number, draw=chance)))

    return drawn()


def plans(setting: Setting = USUAL) -> st.SearchStrategy[Plan]:
    """Return a strategy of fault plans: some of the faults that a random seed of the setting draws.

    Failing plans shrink towards the empty plan.
    """

    @st.composite
    def drawn(draw: st.DrawFn) -> Plan:
        planned = setting.plan(draw(st.integers(0, MOST_SEEDS - 1)))
        return Plan(fault for fault in planned if draw(st.booleans()))

    return drawn()
