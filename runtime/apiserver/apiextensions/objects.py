"""Defaulting, pruning and validation of the objects of one version of a custom kind.

Each part of a schema is compiled when it is first used.

Source: apiextensions-apiserver pkg/registry/customresource/{strategy,status_strategy,validator}.go,
pkg/apiserver/customresource_handler.go (unstructuredSchemaCoercer; v1.36).
"""

from __future__ import annotations

from functools import cached_property
from itertools import islice

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.apiextensions.correlation import Pair
from kcm.runtime.apiserver.apiextensions.embedded import FindEmbedded, embedded_finder, problems, settle_embedded
from kcm.runtime.apiserver.apiextensions.list_types import CheckLists, list_checker
from kcm.runtime.apiserver.apiextensions.pruning_and_defaults import MOST_MADE, Meter, Settle, UnknownFields, settler
from kcm.runtime.apiserver.apiextensions.rules import RuleNode, rule_node
from kcm.runtime.apiserver.apiextensions.schemas import Schema, properties_of
from kcm.runtime.apiserver.apiextensions.validation_errors import MOST_PROBLEMS, explain
from kcm.runtime.apiserver.apiextensions.validators import IsValid, checker
from kcm.runtime.apiserver.errors.field_errors import FieldError


class ObjectSchema:
    """Structural schema of one version: defaulting, pruning and validation of its objects."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._meter = Meter()

    @cached_property
    def _settle(self) -> Settle:
        return settler(self.schema, self._meter, is_root=True)

    @cached_property
    def _prune(self) -> Settle:
        return settler(self.schema, self._meter, is_root=True, defaults=False)

    @cached_property
    def _is_valid(self) -> IsValid | None:
        return checker(self.schema)

    @cached_property
    def _status(self) -> tuple[Schema, IsValid | None] | None:
        schema = properties_of(self.schema).get("status")
        return None if schema is None else (schema, checker(schema))

    @cached_property
    def _rules(self) -> RuleNode | None:
        return rule_node(self.schema, is_root=True)

    @cached_property
    def _lists(self) -> CheckLists | None:
        return list_checker(self.schema)

    @cached_property
    def _embedded(self) -> FindEmbedded | None:
        return embedded_finder(self.schema)

    def settle(self, obj: Object, unknown: list[str] | None = None, *, most_made: int = MOST_MADE) -> int:
        """Prune an object, remove nulls and set defaults, in place. Return how many bytes of JSON the defaults added.

        unknown: list to which the paths of unknown fields are added, up to a limit.
        most_made: maximum number of bytes that the defaults may add.
        Raises UnmarshalTypeError if metadata of an embedded object is malformed, and TooLargeError if the defaults are
        too large.
        """
        found = None if unknown is None else UnknownFields()
        self._meter.left = most_made
        self._settle(obj, found, "")
        made = most_made - self._meter.left
        if unknown is not None and found is not None:
            unknown += found.paths
        if self._embedded is not None:
            for embedded, path in self._embedded(obj, ""):
                settle_embedded(embedded, path)
        return made

    def prune(self, obj: Object) -> None:
        """Remove unknown fields and nulls in place from an object that was converted from another version."""
        self._meter.left = MOST_MADE
        self._prune(obj, None, "")

    def validate(self, obj: Object) -> list[FieldError]:
        """Return the errors of a new object. Its metadata is validated elsewhere."""
        errors = [] if self._is_valid is None or self._is_valid(obj) else explain(self.schema, obj)
        return self._with_rules([*errors, *self._of_embedded(obj), *self._of_lists(obj)], obj, None)

    def validate_update(self, new: Object, old: Object) -> list[FieldError]:
        """Return the errors of an updated object. Errors in unchanged values are not reported (ratcheting)."""
        errors: list[FieldError] = []
        if self._is_valid is not None and not self._is_valid(new):
            errors = explain(self.schema, new, pair=Pair(new, old, self.schema))
        return self._with_rules([*errors, *self._of_embedded(new), *self._of_changed_lists(new, old)], new, old)

    def validate_status_update(self, new: Object, old: Object) -> list[FieldError]:
        errors: list[FieldError] = []
        if self._status is not None and "status" in new:
            schema, is_valid = self._status
            if is_valid is not None and not is_valid(new["status"]):
                pair = Pair(new["status"], old.get("status"), schema) if "status" in old else None
                errors = explain(schema, new["status"], under="status", pair=pair)
        return self._with_rules([*errors, *self._of_changed_lists(new, old)], new, old)

    def _with_rules(self, errors: list[FieldError], new: Object, old: Object | None) -> list[FieldError]:
        return errors if self._rules is None else [*errors, *self._rules.problems(new, old, errors)]

    def _of_embedded(self, obj: Object) -> list[FieldError]:
        if self._embedded is None:
            return []
        found = (error for inner, path in self._embedded(obj, "") for error in problems(inner, path))
        return list(islice(found, MOST_PROBLEMS))

    def _of_lists(self, obj: Object) -> list[FieldError]:
        return [] if self._lists is None else list(islice(self._lists(obj, ""), MOST_PROBLEMS))

    def _of_changed_lists(self, new: Object, old: Object) -> list[FieldError]:
        found = self._of_lists(new)
        return [] if found and self._of_lists(old) else found
