from typing import Any

import pytest

from runtime.apiserver.http.authentication import Authenticator
from runtime.apiserver.registry.users import StaticTokens, User

CERTIFICATE = {"subject": ((("organizationName", "system:masters"),), (("commonName", "kubernetes-admin"),))}


KNOWN = "system:authenticated"
ADMIN = User("admin", groups=("system:masters", KNOWN))
ROBOT = User("robot", groups=(KNOWN,))


@pytest.mark.parametrize(
    "authorization, certificate, user",
    [
        ("Bearer secret", None, ADMIN),
        ("bearer  secret ", None, ADMIN),
        ("Bearer other", None, ROBOT),
        ("Bearer wrong", None, None),
        ("Bearer ", None, None),
        ("Basic secret", None, None),
        ("Bearer séc", None, None),
        ("", CERTIFICATE, User("kubernetes-admin", groups=("system:masters", KNOWN))),
        ("", {"subject": ((("commonName", "jane"),),)}, User("jane", groups=(KNOWN,))),
        ("Bearer wrong", CERTIFICATE, None),
        ("", None, None),
        ("", {}, None),
        ("", {"subject": ((("organizationName", "x"),),)}, None),
    ],
)
def test_the_user_of_a_request(authorization: str, certificate: dict[str, Any] | None, user: User | None) -> None:
    authenticator = Authenticator(StaticTokens({"secret": ADMIN, "other": User("robot")}).user_of)
    assert authenticator.user(authorization, certificate) == user


def test_without_tokens_an_empty_one_is_no_user() -> None:
    assert Authenticator(StaticTokens({}).user_of).user("Bearer ", None) is None
