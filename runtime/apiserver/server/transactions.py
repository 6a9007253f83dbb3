"""Transactions: atomic commits of the changes of a request or periodic job, and of the changes derived from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kcm.runtime.apiserver.core.cluster import Reaction
from kcm.runtime.apiserver.storage.state import State

T = TypeVar("T")


class Transactions:
    """Runner of functions that change the state, each in a transaction.

    reactions: derive further changes from each change, in the same transaction
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self.reactions: list[Reaction] = []

    def run(self, act: Callable[[], T]) -> T:
        """Call `act`, and commit its changes with those of the reactions. If an exception is raised, undo them all."""
        try:
            result = act()
            if self._state.staged:
                self._react()
        except BaseException:
            for change in self._state.roll_back():
                for reaction in self.reactions:
                    reaction.undo(change)
            raise
        if self._state.staged:
            self._state.commit()
        return result

    def discard_pending(self) -> None:
        """Undo all committed changes that are not durable yet."""
        for change in self._state.discard_pending():
            for reaction in self.reactions:
                reaction.undo(change)

    def remove(self, *types: type[Reaction]) -> None:
        """Remove all reactions of these types."""
        self.reactions[:] = [reaction for reaction in self.reactions if not isinstance(reaction, types)]

    def _react(self) -> None:
        """Run the reactions for all staged changes, including the changes that reactions add."""
        done = 0
        while done < len(self._state.staged):
            change = self._state.staged[done]
            for reaction in self.reactions:
                reaction.react(change)
            done += 1
