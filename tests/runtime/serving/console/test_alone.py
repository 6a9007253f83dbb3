from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kcm.runtime.serving.console.alone import console_alone
from kcm.runtime.serving.console.pages import Console, ConsoleParts, LinkKey
from tests.runtime.serving.conftest import client_of


@pytest.mark.parametrize(
    "method, path, headers, status",
    [
        ("GET", "/console/journal", {}, 200),
        ("GET", "/console/journal", {"Host": "rebound.example"}, 403),
        ("GET", "/console/api/number", {}, 403),
        ("GET", "/console/api/number", {"Authorization": "Bearer wrong"}, 401),
        ("GET", "/console/api/number", {"Authorization": "Bearer right"}, 200),
        ("GET", "/healthz", {"Authorization": "Bearer right"}, 404),
        ("POST", "/console/api/number", {"Authorization": "Bearer right"}, 403),
    ],
)
def test_console_alone_shows_its_content_to_clients_with_the_key(
    log: Any, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    console, key = Console(log=log), LinkKey()
    key.key = "right"
    console.set(ConsoleParts(questions={"number": lambda _query: 7}))

    async def ask() -> int:
        async with client_of(console_alone(console, key, now=lambda: 0.0, log=log)) as client:
            return (await client.request(method, path, headers=headers)).status

    assert asyncio.run(ask()) == status
