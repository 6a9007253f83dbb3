"""Webhook calls over kept connections that the webhook's server has closed, as when it restarts on its port."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from kcm.runtime.apiserver.core.questions import Answer, Post
from kcm.runtime.apiserver.server.event_loop.webhook_client import WebhookClient

RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
BODY = b'{"kind": "AdmissionReview"}'


class WebhookServer:
    """Server without TLS that answers, or closes the connection of a request without an answer.

    closes: whether to close it; called with the numbers of the connection and of its request, from 1.
    """

    def __init__(self, closes: Callable[[int, int], bool]) -> None:
        self._closes = closes
        self._connections = 0
        self.received: list[tuple[int, int]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        connection, number = self._connections, 0
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                await reader.readexactly(len(BODY))
                number += 1
                self.received.append((connection, number))
                if self._closes(connection, number):
                    return
                writer.write(RESPONSE)
        except (asyncio.IncompleteReadError, ConnectionResetError):
            pass
        finally:
            writer.close()


async def answers(server: WebhookServer, *together: int) -> list[list[Answer]]:
    """Call the webhook. together: numbers of calls at once, one after the other."""
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    client = WebhookClient()
    try:
        url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/validate"
        return [list(await asyncio.gather(*(client.post(Post(url, BODY)) for _ in range(n)))) for n in together]
    finally:
        client.close()
        listening.close()
        await asyncio.sleep(0)  # the server sees that the connections are closed


def test_call_over_a_closed_connection_is_repeated_over_a_new_one() -> None:
    server = WebhookServer(lambda connection, number: connection == 1 and number == 2)
    first, second = asyncio.run(answers(server, 1, 1))
    assert [answer.error for answer in (*first, *second)] == ["", ""]
    assert [number for _, number in server.received] == [1, 2, 1]


def test_calls_do_not_try_one_closed_connection_after_the_other() -> None:
    server = WebhookServer(lambda connection, number: connection <= 3 and number == 2)
    first, second = asyncio.run(answers(server, 3, 1))
    assert [answer.error for answer in (*first, *second)] == [""] * 4
    assert sum(number == 2 for _, number in server.received) == 1


@pytest.mark.parametrize("calls", [1, 2])
def test_server_that_closes_new_connections_has_each_request_once(calls: int) -> None:
    server = WebhookServer(lambda _connection, _number: True)
    ((*failed,),) = asyncio.run(answers(server, calls))
    assert len(server.received) == calls
    assert all((answer.error or "").endswith(": EOF") for answer in failed)


def test_call_is_repeated_once_only() -> None:
    server = WebhookServer(lambda connection, number: connection > 1 or number == 2)
    _, (failed,) = asyncio.run(answers(server, 1, 1))
    assert (failed.error or "").endswith(": EOF")
    assert [number for _, number in server.received] == [1, 2, 1]
