"""Mutants of the namespace controller."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import kcm.actors.controllers.apimachinery.namespace.content as content
import kcm.actors.controllers.apimachinery.namespace.reconciler as reconciler
from kcm.actors.controllers.apimachinery.namespace.content import Content
from kcm.actors.controllers.apimachinery.namespace.reconciler import NamespaceController
from kcm.actors.reconciliation import Step
from kcm.actors.simulation.campaign.domain_settings import NAMESPACES_SETTING
from kcm.protocols.messages.outcomes import Done, Outcome
from kcm.protocols.objects import Object
from tests.faults.mutants.mutant import Mutant


def failures_count_as_empty() -> Any:
    """Failed requests count as resources that are not served."""

    def anything(outcome: Outcome) -> bool:
        return not isinstance(outcome, Done)

    return patch.object(content, "is_unsupported", anything)


def pods_go_with_the_rest() -> Any:
    """All content is deleted at once, without deleting pods first."""

    def nothing(_self: NamespaceController, _namespace: Object) -> Step[tuple[Content, int]]:
        yield from ()
        return Content(), 0

    stack = ExitStack()
    stack.enter_context(patch.object(NamespaceController, "_delete_pods", nothing))
    stack.enter_context(patch.object(reconciler, "PODS", reconciler.NAMESPACES))
    return stack


NAMESPACES = (
    Mutant(
        name="a resource that fails counts as empty",
        source="kubernetes/kubernetes#93790",
        mutation=failures_count_as_empty,
        setting=NAMESPACES_SETTING,
    ),
    Mutant(
        name="pods do not go first",
        source="kubernetes/kubernetes#130035",
        mutation=pods_go_with_the_rest,
        setting=NAMESPACES_SETTING,
    ),
)
