"""Secrets of bootstrap tokens, and their signatures: upstream's cases.

Cases: kubernetes v1.36 staging/src/k8s.io/cluster-bootstrap util/secrets/secrets_test.go and token/jws/jws_test.go,
pkg/controller/bootstrap/util_test.go.
"""

from __future__ import annotations

import base64

import pytest

from kcm.actors.controllers.bootstrap.detached_signatures import detached_signature
from kcm.actors.controllers.bootstrap.token_secrets import (
    BootstrapToken,
    UnusableSecretError,
    expiry_of,
    signing_token,
    token_id_of,
)
from kcm.protocols.times import format_time
from tests.actors.controllers.bootstrap.objects import ID, token

NOW = 1_800_000_000.0
CONTENT = "Hello from the other side. I must have called a thousand times."
HOUR = 3600.0


@pytest.mark.parametrize(
    ("name", "token_id"),
    [
        ("bootstrap-token-abc123", "abc123"),
        ("", None),
        ("abc123", None),
        ("bootstrap-token-", None),
        ("bootstrap-token-abc", None),
        ("bootstrap-token-abc123ghi", None),
        ("bootstrap-token-ABC123", None),
        ("bootstrap-token-abc123\n", None),
    ],
)
def test_token_id_is_parsed_from_the_name_of_the_secret(name: str, token_id: str | None) -> None:
    assert token_id_of(name) == token_id


@pytest.mark.parametrize(
    ("expiration", "expiry"),
    [
        ("", None),
        (format_time(NOW), NOW),
        ("2027-01-15T09:00:00+01:00", NOW),
        ("garbage", float("-inf")),
        ("2027-01-15", float("-inf")),
        ("\udc80", float("-inf")),
    ],
)
def test_expiration_is_parsed(expiration: str, expiry: float | None) -> None:
    secret = token()
    secret["data"]["expiration"] = base64.b64encode(expiration.encode(errors="surrogateescape")).decode()
    assert expiry_of(secret) == expiry


def test_secret_without_data_never_expires() -> None:
    assert expiry_of({"metadata": {}}) is None


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ({}, ""),
        ({"expiration": format_time(NOW + HOUR)}, ""),
        ({"expiration": format_time(NOW - HOUR)}, "expired"),
        ({"expiration": format_time(NOW)}, "expired"),
        ({"expiration": "garbage"}, "expired"),
        ({"usage-bootstrap-signing": ""}, "usage-bootstrap-signing is not true"),
        ({"usage-bootstrap-signing": "True"}, "usage-bootstrap-signing is not true"),
        ({"token-id": ""}, "no token-id"),
        ({"token-id": "def456"}, "differs from the id in its name"),
        ({"token-secret": ""}, "no token-secret"),
    ],
)
def test_token_signs_only_if_its_secret_is_valid(data: dict[str, str], why: str) -> None:
    secret = token(data)
    if not why:
        assert signing_token(secret, now=NOW) == BootstrapToken(ID, b"tokenSecret")
        return
    with pytest.raises(UnusableSecretError, match=why):
        signing_token(secret, now=NOW)


def test_secret_with_malformed_name_does_not_sign() -> None:
    for name in (ID, "bootstrap-token-def456"):
        with pytest.raises(UnusableSecretError):
            signing_token(token(name=name), now=NOW)


@pytest.mark.parametrize(
    ("content", "secret", "signature"),
    [
        (CONTENT, "my voice is my passcode", "VShe2taLd-YTrmWuRkcL_8QTNDHYxQIEBsAYYiIj1_8"),
        ("", "my voice is my passcode", "7Ui1ALizW4jXphVUB7xUqC9vLYLL9RZeOFfVLoB7Tgk"),
        (CONTENT, "", "UfkqvDGiIFxrMnFseDj9LYJOLNrvjW8aHhF71mvvAs8"),
    ],
)
def test_signature_equals_upstreams(content: str, secret: str, signature: str) -> None:
    made = detached_signature(content, key_id="joshua", key=secret.encode())
    assert made == f"eyJhbGciOiJIUzI1NiIsImtpZCI6Impvc2h1YSJ9..{signature}"
