"""Concurrent metadata patches: strategic merge patches, or JSON merge patches where these are not supported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kcm.actors.reconciliation import Step, together
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Patch
from kcm.protocols.messages.outcomes import Done, Invalid, NotFound, Outcome
from kcm.protocols.objects import Object
from kcm.protocols.resources import Resource
from kcm.runtime.tables.lister import Lister

UNSUPPORTED_MEDIA_TYPE = 415


class MakePatch(Protocol):
    """Builds the patch for an object.

    strategic: return a strategic merge patch; otherwise a JSON merge patch with the resourceVersion as precondition.
    """

    def __call__(self, resource: Resource, obj: Object, *, strategic: bool) -> Patch: ...


class Patching:
    """Sends patches, and keeps the resources that reject strategic merge patches (custom resources)."""

    def __init__(self) -> None:
        self._merged: set[str] = set()  # Resource.ids

    def all_of(self, objects: Sequence[tuple[Lister, Object]], make: MakePatch) -> Step[None]:
        """Patch all objects at once. Objects that do not exist are ignored. Raises CommandError for other failures."""
        commands = [
            make(lister.resource, obj, strategic=lister.resource.id not in self._merged) for lister, obj in objects
        ]
        outcomes = yield from together(commands)
        refused = [target for target, outcome in zip(objects, outcomes, strict=True) if _is_unsupported(outcome)]
        _raise_failure(commands, outcomes)
        if refused:
            self._merged.update(lister.resource.id for lister, _ in refused)
            again = [make(lister.resource, obj, strategic=False) for lister, obj in refused]
            _raise_failure(again, (yield from together(again)))


def _raise_failure(commands: Sequence[Patch], outcomes: Sequence[Outcome]) -> None:
    for command, outcome in zip(commands, outcomes, strict=True):
        if not isinstance(outcome, (Done, NotFound)) and not _is_unsupported(outcome):
            raise CommandError(command, outcome)


def _is_unsupported(outcome: Outcome) -> bool:
    return isinstance(outcome, Invalid) and outcome.code == UNSUPPORTED_MEDIA_TYPE
