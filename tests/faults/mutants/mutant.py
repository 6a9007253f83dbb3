"""A bug that Kubernetes, or a client of it, once had: rebuilt as a small mutation of our runtime or of a reconciler."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from kcm.actors.simulation.campaign.setting import USUAL, Setting

Mutation = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """mutation: puts the bug in, and takes it out again. setting: where it is looked for.

    source: the issue or pull request, as owner/repository#number; in words where none was found that says it.
    held_by: what keeps the bug from doing harm, where it does none; tests/faults/test_second_lines.py shows it.
    """

    name: str
    source: str
    mutation: Mutation
    setting: Setting = USUAL
    held_by: str = ""
