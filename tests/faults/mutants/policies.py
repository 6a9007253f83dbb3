"""Mutants of the controller that type-checks admission policies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from kcm.actors.controllers.apimachinery import validatingadmissionpolicystatus
from kcm.actors.controllers.apimachinery.validatingadmissionpolicystatus import MatchedKind, PolicyStatus
from kcm.actors.reconciliation import Step, apply
from kcm.actors.simulation.campaign.domain_settings import POLICIES_SETTING
from kcm.protocols.messages.outcomes import FAILURES
from kcm.protocols.objects import Object
from tests.faults.mutants.mutant import Mutant


def applied_by_name() -> Any:
    """The result of a check has no uid, as upstream."""

    def lax(resource: Any, obj: Any, **options: Any) -> Any:
        return apply(resource, {**obj, "metadata": {"name": obj["metadata"]["name"]}}, **options)

    return patch.object(validatingadmissionpolicystatus, "apply", lax)


@contextmanager
def discovered_once() -> Iterator[None]:
    """Discovery is not repeated for an unknown resource."""

    def _kinds(self: PolicyStatus, policy: Object) -> Step[tuple[MatchedKind, ...]]:
        yield from ()
        return validatingadmissionpolicystatus.matched_kinds(policy, self._served or ()).kinds

    with patch.object(PolicyStatus, "_kinds", _kinds):
        yield


@contextmanager
def failures_are_skipped() -> Iterator[None]:
    """A failed request for a schema counts as an unknown kind, as upstream."""
    must = validatingadmissionpolicystatus.must
    fetch = validatingadmissionpolicystatus.Fetch

    def lax(command: Any, but: Any = ()) -> Any:
        return must(command, but=FAILURES if isinstance(command, fetch) else but)

    with patch.object(validatingadmissionpolicystatus, "must", lax):
        yield


POLICIES = (
    Mutant(
        name="a type check is written to another policy of the name",
        source="kubernetes v1.36 validatingadmissionpolicystatus/controller.go: the apply has no uid",
        mutation=applied_by_name,
        setting=POLICIES_SETTING,
    ),
    Mutant(
        name="a kind that was just defined is not type-checked",
        source="kubernetes v1.36 typechecking.go, typesToCheck: a RESTMapper that cannot be refreshed",
        mutation=discovered_once,
        setting=POLICIES_SETTING,
    ),
    Mutant(
        name="a schema that could not be fetched is skipped",
        source="kubernetes v1.36 typechecking.go, CreateContext: an error counts as an unknown schema",
        mutation=failures_are_skipped,
        setting=POLICIES_SETTING,
    ),
)
