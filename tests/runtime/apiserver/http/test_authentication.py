from typing import Any

import pytest

from runtime.apiserver.http.authentication import Authenticator

CERTIFICATE = {"subject": ((("organizationName", "system:masters"),), (("commonName", "kubernetes-admin"),))}


@pytest.mark.parametrize(
    "authorization, certificate, user",
    [
        ("Bearer secret", None, "admin"),
        ("bearer  secret ", None, "admin"),
        ("Bearer other", None, "robot"),
        ("Bearer wrong", None, None),
        ("Bearer ", None, None),
        ("Basic secret", None, None),
        ("Bearer séc", None, None),
        ("", CERTIFICATE, "kubernetes-admin"),
        ("Bearer wrong", CERTIFICATE, None),
        ("", None, None),
        ("", {}, None),
        ("", {"subject": ((("organizationName", "x"),),)}, None),
    ],
)
def test_the_user_of_a_request(authorization: str, certificate: dict[str, Any] | None, user: str | None) -> None:
    authenticator = Authenticator({"secret": "admin", "other": "robot"})
    assert authenticator.user(authorization, certificate) == user


def test_without_tokens_an_empty_one_is_no_user() -> None:
    assert Authenticator({}).user("Bearer ", None) is None
