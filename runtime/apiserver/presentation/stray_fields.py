"""Fields of a write that its kind does not have, or that are there twice: warnings, or a refusal (fieldValidation)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kcm.protocols.messages.commands import PatchType
from kcm.runtime.apiserver.presentation.request_bodies import repeated_in_applied
from kcm.runtime.apiserver.presentation.yaml_bodies import JsonBody
from kcm.runtime.apiserver.registry.request_info import RequestInfo
from kcm.runtime.apiserver.registry.routing import FindRoute
from kcm.runtime.apiserver.registry.subresources import subresource_of
from kcm.runtime.apiserver.schema.api_types import built_in_types
from kcm.runtime.apiserver.schema.field_validation import STRICT, WARN, FieldValidator
from kcm.runtime.apiserver.schema.kind_checks import built_in_type_checks
from kcm.runtime.client.api import Request

T = TypeVar("T")

_PATCHES_WITH_FIELDS = {PatchType.MERGE, PatchType.STRATEGIC, PatchType.APPLY}


class StrayFields:
    """Looks for the stray fields of the writes to one server.

    every_patch: look at each patch. Without it, at those of custom kinds and those of which the server removed a field:
    fields that are there twice are missed, and most patches are not decoded once more.
    """

    def __init__(self, find_route: FindRoute, *, every_patch: bool = True) -> None:
        self._find_route, self._every_patch = find_route, every_patch
        self._validator, self._type_checks = FieldValidator(built_in_types()), built_in_type_checks()

    def watched(self, asked: Request, info: RequestInfo, read: JsonBody, act: Callable[[], T]) -> tuple[T, list[str]]:
        """Return what `act` returns, which carries the write out, and the warnings about its body.

        Raises StatusError where stray fields are an error (fieldValidation=Strict).
        """
        # The default is to warn of stray fields. Where the server found none, a body is not read again to look for
        # those that are there twice, as upstream does: it costs as much as the write.
        is_asked = "fieldValidation" in asked.query or bool(read.repeated)
        if asked.method == "PATCH" and not is_asked:
            route = None if self._every_patch else self._find_route(info)
            is_asked = self._every_patch or (route is not None and route.definition.dynamic)
        warnings = self._check(asked, info, read) if is_asked else []
        before = self._type_checks.unknown_field_count
        outcome = act()
        if not is_asked and self._type_checks.unknown_field_count != before:
            warnings = self._check(asked, info, read)
        return outcome, warnings

    def _check(self, asked: Request, info: RequestInfo, read: JsonBody) -> list[str]:
        """Returns warnings. Raises StatusError where stray fields are an error."""
        directive = asked.query.get("fieldValidation", WARN)
        route = self._find_route(info)
        has_fields = asked.method in ("POST", "PUT") or asked.content_type in _PATCHES_WITH_FIELDS
        if directive not in (STRICT, WARN) or route is None or not has_fields:
            return []
        if asked.content_type == PatchType.APPLY:  # fields that are unknown are refused where it is applied
            return repeated_in_applied(read, directive)
        definition = route.definition
        other = subresource_of(route.subresource).kind if route.subresource else None
        group, version, kind = other or (definition.group, definition.version, definition.kind)
        return self._validator.check(
            asked.body,
            group=group,
            version=version,
            kind=kind,
            directive=directive,
            patch=asked.method == "PATCH",
            repeated=read.repeated,
            settle=definition.settle if other is None else None,
        )
