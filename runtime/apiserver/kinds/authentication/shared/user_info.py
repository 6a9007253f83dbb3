"""UserInfo, as reviews say who somebody is.

Source: kubernetes staging/src/k8s.io/api/authentication/v1/types.go, UserInfo (v1.36).
"""

from __future__ import annotations

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.registry.users import User


def user_info(user: User) -> Object:
    """Fields that are empty are left out."""
    extra = {key: list(values) for key, values in user.extra.items()}
    said = {"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": extra}
    return {field: value for field, value in said.items() if value}
