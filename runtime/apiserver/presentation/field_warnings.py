"""Field validation of writes (?fieldValidation): warnings or an error for unknown and duplicate fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kcm.protocols.messages.commands import PatchType
from kcm.runtime.apiserver.presentation.request_bodies import duplicate_key_warnings
from kcm.runtime.apiserver.presentation.yaml_bodies import JsonBody
from kcm.runtime.apiserver.registry.request_info import RequestInfo
from kcm.runtime.apiserver.registry.routing import FindRoute
from kcm.runtime.apiserver.registry.subresources import subresource_of
from kcm.runtime.apiserver.schema.field_validation import STRICT, WARN, FieldValidator
from kcm.runtime.apiserver.schema.kind_checks import built_in_type_checks
from kcm.runtime.client.api import Request
from kcm.runtime.schema.api_types import built_in_types

T = TypeVar("T")

_PATCHES_WITH_FIELDS = {PatchType.MERGE, PatchType.STRATEGIC, PatchType.APPLY}


class FieldWarnings:
    """Validator of unknown and duplicate fields in the bodies of writes.

    every_patch: whether to validate every patch. Otherwise, only patches of custom resources are validated, and patches
        from which the server removed an unknown field. This saves a second decoding of most patches, but misses their
        duplicate fields.
    """

    def __init__(self, find_route: FindRoute, *, every_patch: bool = True) -> None:
        self._find_route, self._every_patch = find_route, every_patch
        self._validator, self._type_checks = FieldValidator(built_in_types()), built_in_type_checks()

    def carry_out(
        self, request: Request, info: RequestInfo, body: JsonBody, act: Callable[[], T]
    ) -> tuple[T, list[str]]:
        """Carry out a write, and return its result and the warnings about its body.

        act: carries out the write

        Raises StatusError (400) if fieldValidation is "Strict" and the body has unknown or duplicate fields.
        """
        # By default, upstream warns of unknown and of duplicate fields. Here a body is checked by default only if the
        # write itself finds an unknown field, as the check costs as much as the write.
        is_checked = "fieldValidation" in request.query or bool(body.repeated)
        if request.method == "PATCH" and not is_checked:
            route = None if self._every_patch else self._find_route(info)
            is_checked = self._every_patch or (route is not None and route.definition.dynamic)
        warnings = self._check(request, info, body) if is_checked else []
        before = self._type_checks.unknown_field_count
        outcome = act()
        if not is_checked and self._type_checks.unknown_field_count != before:
            warnings = self._check(request, info, body)
        return outcome, warnings

    def _check(self, request: Request, info: RequestInfo, body: JsonBody) -> list[str]:
        """Return the warnings about the body of a write.

        Raises StatusError (400) instead if fieldValidation is "Strict".
        """
        directive = request.query.get("fieldValidation", WARN)
        route = self._find_route(info)
        has_fields = request.method in ("POST", "PUT") or request.content_type in _PATCHES_WITH_FIELDS
        if directive not in (STRICT, WARN) or route is None or not has_fields:
            return []
        if request.content_type == PatchType.APPLY:  # server-side apply itself rejects unknown fields
            return duplicate_key_warnings(body, directive)
        definition = route.definition
        other = subresource_of(route.subresource).kind if route.subresource else None
        group, version, kind = other or (definition.group, definition.version, definition.kind)
        return self._validator.check(
            request.body,
            group=group,
            version=version,
            kind=kind,
            directive=directive,
            patch=request.method == "PATCH",
            repeated=body.repeated,
            settle=definition.settle if other is None else None,
        )
