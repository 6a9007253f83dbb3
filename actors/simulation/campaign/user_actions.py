"""User actions as a value that hypothesis can draw, instead of actions that a seed determines."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from kcm.actors.simulation.campaign.setting import Setting
from kcm.actors.simulation.trials.scenario import Action


class UserActions:
    """User actions in order of time.

    setting: setting of the run; the attribute is a copy that has these actions instead of those of its trials.
    number: number of the scenario, which determines nodes, options and elections.
    """

    def __init__(self, setting: Setting, number: int, actions: Iterable[Action]) -> None:
        self.number = number
        self.actions = tuple(sorted(actions, key=lambda action: action.at))
        self.setting = replace(setting, actions=lambda _scenario: self.actions)

    def __repr__(self) -> str:
        lines = [f"    {action.at:g} s: {action.text}" for action in self.actions]
        return "\n".join([f"User actions in scenario {self.number} of {self.setting.name}:", *(lines or ["    none"])])
