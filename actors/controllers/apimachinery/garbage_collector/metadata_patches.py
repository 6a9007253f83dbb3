"""Concurrent patches of object metadata.

Strategic merge patches are sent to resources that support them, JSON merge patches to others (custom resources).
"""

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


class PatchBuilder(Protocol):
    """Function that builds the patch command for an object.

    strategic: whether to build a strategic merge patch. Otherwise it is a JSON merge patch that contains the object's
        resourceVersion as precondition, because such a patch replaces lists as a whole.
    """

    def __call__(self, resource: Resource, obj: Object, *, strategic: bool) -> Patch: ...


class MetadataPatcher:
    """Sends metadata patches, and remembers which resources reject strategic merge patches (custom resources)."""

    def __init__(self) -> None:
        self._merged: set[str] = set()  # Resource.ids

    def patch_all(self, objects: Sequence[tuple[Lister, Object]], make: PatchBuilder) -> Step[None]:
        """Patch all objects concurrently. Objects that do not exist are ignored.

        make: builds the patch of each object; it is called again for a JSON merge patch if a strategic one is rejected.

        Raises CommandError if another patch fails.
        """
        commands = [
            make(lister.resource, obj, strategic=lister.resource.id not in self._merged) for lister, obj in objects
        ]
        outcomes = yield from together(commands)
        rejected = [target for target, outcome in zip(objects, outcomes, strict=True) if _is_unsupported(outcome)]
        _raise_failure(commands, outcomes)
        if rejected:
            self._merged.update(lister.resource.id for lister, _ in rejected)
            again = [make(lister.resource, obj, strategic=False) for lister, obj in rejected]
            _raise_failure(again, (yield from together(again)))


def _raise_failure(commands: Sequence[Patch], outcomes: Sequence[Outcome]) -> None:
    for command, outcome in zip(commands, outcomes, strict=True):
        if not isinstance(outcome, (Done, NotFound)) and not _is_unsupported(outcome):
            raise CommandError(command, outcome)


def _is_unsupported(outcome: Outcome) -> bool:
    return isinstance(outcome, Invalid) and outcome.code == UNSUPPORTED_MEDIA_TYPE
