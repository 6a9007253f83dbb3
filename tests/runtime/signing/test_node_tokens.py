"""Tokens of nodes."""

from __future__ import annotations

import pytest

from kcm.runtime.signing.node_tokens import node_in, node_token

KEY = b"key"


def test_token_names_its_node() -> None:
    assert node_in(KEY, node_token(KEY, "n1.example.com")) == "n1.example.com"


@pytest.mark.parametrize(
    "token",
    [
        "",
        "kcm-node.",
        "kcm-node.n1",
        node_token(b"other", "n1"),
        node_token(KEY, "n1").replace("n1", "n2"),
        node_token(KEY, ""),
        "kcm-node.\xe4\udc80.n1",
    ],
)
def test_invalid_node_token_names_no_node(token: str) -> None:
    assert node_in(KEY, token) is None
