"""How the lists of the built-in types merge under a strategic merge patch.

A list of which upstream says nothing is replaced as a whole, among them some that one would expect to merge: a Node's
taints, a Pod's tolerations and containerStatuses, a Service's externalIPs. The retainKeys strategy (volumes,
resourceClaims, a Deployment's strategy) matters to clients that make patches: an applied one has $retainKeys in it.
"""

from __future__ import annotations

from functools import lru_cache

from kcm.runtime.apiserver.schema.api_types import OBJECT_META, ApiTypes, Field, built_in_types
from kcm.runtime.apiserver.schema.strategic_merge import MergeField, MergeSchema


class TypeMergeSchema(MergeSchema):
    """That of an API type; a field's is made when a patch first has that field."""

    def __init__(self, types: ApiTypes, name: str) -> None:
        super().__init__()
        self._types, self._name = types, name
        self._known: dict[str, MergeField] = {}

    def field(self, name: str) -> MergeField:
        merge = self._known.get(name)
        if merge is None:
            type_ = self._types.find(self._name)
            found = None if type_ is None else type_.fields.get(name)
            if found is None:
                return super().field(name)
            merge = self._known[name] = self._merge(found)
        return merge

    def _merge(self, field: Field) -> MergeField:
        inner = field.form in ("one", "list") and field.struct
        return MergeField(
            schema=TypeMergeSchema(self._types, inner) if inner else MergeSchema(),
            merge="merge" in field.patch_strategy,
            merge_key=field.patch_merge_key,
            replace="replace" in field.patch_strategy,
        )


@lru_cache(maxsize=1024)  # as many as there are kinds, also of definitions that are gone
def merge_schema_of(group: str, version: str, kind: str) -> MergeSchema:
    """The schema of a built-in kind. That of any other kind still knows how metadata merges.

    Strategic merge is for built-in types only: for a custom resource a server responds with 415.
    """
    types = built_in_types()
    name = types.name_of(group, version, kind)
    if name is None:
        return MergeSchema({"metadata": MergeField(TypeMergeSchema(types, OBJECT_META))})
    return TypeMergeSchema(types, name)
