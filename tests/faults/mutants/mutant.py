"""Known bugs of Kubernetes or its clients, as small mutations of the runtime or of a reconciler."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from kcm.actors.simulation.campaign.setting import USUAL, Setting

Mutation = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """Known bug that is reintroduced.

    source: issue or pull request, as owner/repository#number, or a description of the bug.
    mutation: context manager that introduces the bug.
    setting: setting in which the bug is searched.
    held_by: safeguard that prevents effects of the bug, if there is one; tests/faults/test_second_lines.py tests it.
    """

    name: str
    source: str
    mutation: Mutation
    setting: Setting = USUAL
    held_by: str = ""
