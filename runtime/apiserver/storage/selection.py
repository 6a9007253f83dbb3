"""Label and field selectors of a list, a watch or a deletecollection."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from kcm.protocols.objects import Key, Object, labels_of, split_key
from kcm.protocols.selectors import EVERYTHING, FieldSelector, LabelSelector, parse_field_selector, parse_label_selector
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition

_NAME, _NAMESPACE = "metadata.name", "metadata.namespace"
_ANY = FieldSelector()


class SelectionPredicate(Struct, frozen=True):
    """Conditions on labels, on the key (metadata.name, metadata.namespace), and on other fields of an object.

    Conditions on other fields are kept apart because only they need the decoded object.
    """

    definition: ResourceDefinition
    labels: LabelSelector = EVERYTHING
    on_key: FieldSelector = _ANY
    on_content: FieldSelector = _ANY

    @property
    def everything(self) -> bool:
        return self.labels.empty and self.on_key.empty and self.on_content.empty

    def by_key(self) -> SelectionPredicate:
        """Return this selection without the conditions on labels and content, which need the converted object."""
        return SelectionPredicate(self.definition, on_key=self.on_key)

    def has_key(self, key: Key) -> bool:
        if self.on_key.empty:
            return True
        namespace, name = split_key(key)
        return self.on_key.matches(lambda field: name if field == _NAME else namespace)

    def has_content(self, obj: Object) -> bool:
        if self.on_content.empty:
            return True
        getters = self.definition.strategy.selectable_fields
        return self.on_content.matches(lambda field: getters[field](obj))

    def matches(self, key: Key, obj: Object) -> bool:
        """Report whether the object is selected.

        obj: the object in the API version of the selection's definition
        """
        return self.has_key(key) and self.labels.matches(labels_of(obj)) and self.has_content(obj)


def parse_selection(definition: ResourceDefinition, query: Mapping[str, str]) -> SelectionPredicate:
    """Parse the labelSelector and fieldSelector of a query.

    Raises StatusError (400) for a malformed selector, and for a field that the kind does not support in selectors.
    """
    try:
        labels = parse_label_selector(query.get("labelSelector", ""))
    except ValueError as err:
        raise status_errors.bad_request(f"unable to parse requirement: {err}") from err
    try:
        fields = parse_field_selector(query.get("fieldSelector", ""))
    except ValueError as err:
        raise status_errors.bad_request(f"invalid selector: {err}") from err
    on_key, on_content = [], []
    for requirement in fields.requirements:
        if requirement.field == _NAME or (requirement.field == _NAMESPACE and definition.namespaced):
            on_key.append(requirement)
        elif requirement.field in definition.strategy.selectable_fields:
            on_content.append(requirement)
        else:
            raise status_errors.bad_request(definition.strategy.unsupported_field.format(requirement.field))
    return SelectionPredicate(definition, labels, FieldSelector(tuple(on_key)), FieldSelector(tuple(on_content)))
