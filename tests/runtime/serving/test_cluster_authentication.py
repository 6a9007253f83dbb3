"""Authentication settings that the cluster publishes in a ConfigMap."""

from __future__ import annotations

import pytest

from kcm.runtime.serving.authentication import ProxyHeaders
from kcm.runtime.serving.cluster_authentication import PublishedSettings, settings_of


def test_settings_are_parsed() -> None:
    assert settings_of(
        {
            "client-ca-file": "A",
            "requestheader-client-ca-file": "B",
            "requestheader-allowed-names": '["front-proxy"]',
            "requestheader-username-headers": '["X-Remote-User"]',
            "requestheader-group-headers": '["X-Remote-Group"]',
            "requestheader-uid-headers": "",
            "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
        }
    ) == PublishedSettings(
        clients="A",
        proxies="B",
        headers=ProxyHeaders(
            names=("front-proxy",),
            username=("X-Remote-User",),
            group=("X-Remote-Group",),
            extra=("X-Remote-Extra-",),
        ),
    )


def test_empty_config_map_has_no_authorities() -> None:
    assert settings_of({}) == PublishedSettings()


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ([], "data: "),
        ({"client-ca-file": 7}, "data: "),
        ({"requestheader-username-headers": "X-Remote-User"}, "requestheader-username-headers: "),
        ({"requestheader-group-headers": '{"a": 1}'}, "requestheader-group-headers: "),
        ({"requestheader-allowed-names": "[1]"}, "requestheader-allowed-names: "),
    ],
)
def test_malformed_key_is_named(data: object, problem: str) -> None:
    with pytest.raises(ValueError, match=f"^{problem}"):
        settings_of(data)
