"""Immutability of Secrets."""

from __future__ import annotations

from tests.runtime.apiserver.conftest import Api


def test_immutable_secret_cannot_be_changed(api: Api) -> None:
    api.create("secrets", {"metadata": {"name": "s"}, "stringData": {"a": "b"}, "immutable": True})
    stored = api.get("secrets", "s").obj
    assert (stored["data"], stored["type"]) == ({"a": "Yg=="}, "Opaque")
    assert "stringData" not in stored
    refused = api.patch("secrets", "s", {"data": {"a": "Yw=="}, "immutable": False})
    detail = "Forbidden: field is immutable when `immutable` is set"
    assert refused.causes == {"immutable": detail, "data": detail}
