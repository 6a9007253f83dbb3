import hashlib
from typing import Any

import pytest

from kcm.runtime.apiserver.access.authentication import (
    LONGEST_AUTHORIZATION,
    NO_CERTIFICATE,
    Authenticator,
    by_certificate,
    certificate_user,
)
from kcm.runtime.apiserver.access.token_authenticator import StaticTokens
from kcm.runtime.apiserver.registry.users import ANONYMOUS, User

KNOWN = "system:authenticated"
ADMIN = User("admin", groups=("system:masters", KNOWN))
ROBOT = User("robot", groups=(KNOWN,))
UID = "1.3.6.1.4.1.57683.2"


@pytest.mark.parametrize(
    "authorization, user",
    [
        (b"Bearer secret", ADMIN),
        (b" bearer secret ", ADMIN),
        (b"BEARER other", ROBOT),
        (b"Bearer secret and more", ADMIN),
        (b"Bearer wrong", None),
        ("Bearer séc".encode(), None),
        (b"Bearer  secret", ANONYMOUS),  # an empty token, as upstream
        (b"Bearer ", ANONYMOUS),
        (b"Bearer", ANONYMOUS),
        (b"Bearer\tsecret", ANONYMOUS),
        (b"Basic secret", ANONYMOUS),
        (b"secret", ANONYMOUS),
        (b"", ANONYMOUS),
    ],
)
def test_only_bearer_tokens_authenticate_a_user(authorization: bytes, user: User | None) -> None:
    authenticator = Authenticator(StaticTokens({"secret": ADMIN, "other": User("robot")}).user_of)
    assert authenticator.by_token(authorization) == user


def _fields(*subject: tuple[str, str], **fields: Any) -> dict[str, Any]:
    return {"subject": tuple((part,) for part in subject), **fields}


@pytest.mark.parametrize(
    "fields, name, uid, groups",
    [
        (_fields(("commonName", "jane")), "jane", "", (KNOWN,)),
        (
            _fields(("organizationName", "system:masters"), ("organizationName", "dev"), ("commonName", "root")),
            "root",
            "",
            ("system:masters", "dev", KNOWN),
        ),
        (_fields(("commonName", "first"), ("commonName", "last")), "last", "", (KNOWN,)),
        (_fields(("commonName", "jane"), (UID, "7")), "jane", "7", (KNOWN,)),
        (_fields(("commonName", "system:anonymous")), "system:anonymous", "", ()),
    ],
)
def test_certificate_subject_is_the_user(fields: dict[str, Any], name: str, uid: str, groups: tuple[str, ...]) -> None:
    identifier = f"X509SHA256={hashlib.sha256(b'der').hexdigest()}"
    extra = {"authentication.kubernetes.io/credential-id": (identifier,)}
    assert certificate_user(fields, b"der").at(0) == User(name, uid, groups, extra)


@pytest.mark.parametrize("fields", [{}, _fields(("organizationName", "x")), _fields(("commonName", ""))])
def test_certificate_without_common_name_is_ignored(fields: dict[str, Any]) -> None:
    assert certificate_user(fields, b"der") is NO_CERTIFICATE


@pytest.mark.parametrize("uids", [("7", "8"), ("",)])
def test_certificate_with_an_unclear_uid_is_refused(uids: tuple[str, ...]) -> None:
    fields = _fields(("commonName", "jane"), *((UID, uid) for uid in uids))
    assert certificate_user(fields, b"der").at(0) is None


def test_expired_certificate_is_rejected() -> None:
    jane = certificate_user(_fields(("commonName", "jane"), notAfter="Jan  2 03:00:00 2026 GMT"), b"der")
    assert jane.at(1_767_322_800.0) is not None
    assert jane.at(1_767_322_800.5) is None


def test_connection_without_tls_has_no_certificate() -> None:
    assert by_certificate(None) is NO_CERTIFICATE


def test_very_long_token_is_not_looked_up() -> None:
    asked: list[str] = []
    authenticator = Authenticator(lambda token: asked.append(token))
    assert authenticator.by_token(b"Bearer " + b"x" * LONGEST_AUTHORIZATION) is None
    assert asked == []
    authenticator.by_token(b"Bearer " + b"x" * (LONGEST_AUTHORIZATION - 7))
    assert len(asked) == 1
