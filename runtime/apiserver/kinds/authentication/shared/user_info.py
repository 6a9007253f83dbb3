"""UserInfo in the status of reviews.

Source: kubernetes staging/src/k8s.io/api/authentication/v1/types.go, UserInfo (v1.36).
"""

from __future__ import annotations

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.registry.users import User


def user_info(user: User) -> Object:
    """Return a user's UserInfo without empty fields."""
    extra = {key: list(values) for key, values in user.extra.items()}
    fields = {"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": extra}
    return {field: value for field, value in fields.items() if value}
