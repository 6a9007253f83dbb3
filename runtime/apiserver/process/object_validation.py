"""Validation of an object against the built-in kinds, without a running server."""

from __future__ import annotations

import copy

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import quoted
from kcm.runtime.apiserver.kinds.built_in import BUILT_IN
from kcm.runtime.apiserver.schema.kind_checks import built_in_type_checks
from kcm.runtime.apiserver.schema.scalars import UnmarshalTypeError


def validation_error(obj: Object) -> str:
    """Return the error with which the server would refuse an object; "" if it may accept the object.

    Checks that the kind exists in a built-in API version, and that the fields have the right types. Objects in other
    API versions are not checked, because a CustomResourceDefinition may define them.

    obj: an object with apiVersion, kind and metadata
    """
    api_version, kind = obj["apiVersion"], obj["kind"]
    served = [definition for definition in BUILT_IN if definition.api_version == api_version]
    if not served:
        return ""
    definition = next((definition for definition in served if definition.kind == kind), None)
    if definition is None:
        return f'no matches for kind "{kind}" in version "{api_version}"'
    try:
        built_in_type_checks().check(definition, copy.deepcopy(obj))
    except UnmarshalTypeError as err:
        return f"{kind} in version {quoted(definition.version)} cannot be handled as a {kind}: {err}"
    return ""
