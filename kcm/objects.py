"""API objects: resources, keys, the fields that all objects have, models, ownership and conditions."""

from kcm.actors.reconciliation import controlled_by, own, owned
from kcm.protocols.conditions import find_condition, set_condition
from kcm.protocols.models import ObjectMeta, OwnerReference, as_object
from kcm.protocols.objects import (
    Key,
    Object,
    decode_object,
    encode_object,
    finalizers_of,
    is_deleting,
    key_of,
    labels_of,
    make_key,
    name_of,
    namespace_of,
    split_key,
    uid_of,
)
from kcm.protocols.resources import Resource

__all__ = [
    "Key",
    "Object",
    "ObjectMeta",
    "OwnerReference",
    "Resource",
    "as_object",
    "controlled_by",
    "decode_object",
    "encode_object",
    "finalizers_of",
    "find_condition",
    "is_deleting",
    "key_of",
    "labels_of",
    "make_key",
    "name_of",
    "namespace_of",
    "own",
    "owned",
    "set_condition",
    "split_key",
    "uid_of",
]
