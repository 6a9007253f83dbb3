"""Strategic merge schemas of the built-in types.

A list without upstream's patch annotations is replaced as a whole, even where merging might be expected: a Node's
taints, a Pod's tolerations and containerStatuses, a Service's externalIPs. The retainKeys strategy (volumes,
resourceClaims, a Deployment's strategy) concerns only clients, which add $retainKeys to the patches that they compute.
"""

from __future__ import annotations

from functools import lru_cache

from kcm.runtime.apiserver.schema.strategic_merge import MergeField, MergeSchema
from kcm.runtime.schema.api_types import OBJECT_META, ApiTypes, Field, built_in_types


class TypeMergeSchema(MergeSchema):
    """Merge schema of an API type. The rule of a field is created when a patch first contains the field."""

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


@lru_cache(maxsize=1024)  # bounds the schemas of deleted definitions
def merge_schema_of(group: str, version: str, kind: str) -> MergeSchema:
    """Return the merge schema of a built-in kind. For any other kind, the schema contains only metadata.

    The server supports strategic merge patches only for built-in kinds, and responds with 415 for custom resources.
    """
    types = built_in_types()
    name = types.name_of(group, version, kind)
    if name is None:
        return MergeSchema({"metadata": MergeField(TypeMergeSchema(types, OBJECT_META))})
    return TypeMergeSchema(types, name)
