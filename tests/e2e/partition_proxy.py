"""TCP proxy between one client and a server that can be partitioned from each other.

During a partition nothing is forwarded, in neither direction, and no connection is closed, as if packets were dropped.
After it, what the client has sent is still forwarded if the client has not closed the connection meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import threading
from collections.abc import Iterator

CHUNK = 1 << 16
CLOSED = select.POLLHUP | select.POLLERR | select.POLLRDHUP


class PartitionProxy:
    """Proxy on a free port of loopback, which `port` names. Its methods may be called from any thread."""

    def __init__(self, target: int) -> None:
        """Create a proxy that is not served. target: port on loopback."""
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=256)
        self._listening.setblocking(False)
        self.port: int = self._listening.getsockname()[1]
        self._open = asyncio.Event()
        self._open.set()
        self._partitions = 0

    @classmethod
    @contextlib.contextmanager
    def serving(cls, target: int) -> Iterator[PartitionProxy]:
        """Serve a proxy on a thread of its own until the end of the block."""
        proxy = cls(target)
        thread = threading.Thread(target=proxy._run, daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            proxy._loop.call_soon_threadsafe(proxy._loop.stop)
            thread.join()

    def cut(self) -> None:
        """Begin a partition."""
        self._loop.call_soon_threadsafe(self._cut)

    def heal(self) -> None:
        """End the partition."""
        self._loop.call_soon_threadsafe(self._open.set)

    def _cut(self) -> None:
        self._partitions += 1
        self._open.clear()

    def _run(self) -> None:
        self._loop.create_task(self._accept())
        self._loop.run_forever()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.wait(tasks))
        self._listening.close()
        self._loop.close()

    async def _accept(self) -> None:
        serving = set()
        while True:
            client, _ = await self._loop.sock_accept(self._listening)
            client.setblocking(False)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            task = self._loop.create_task(self._serve(client))
            serving.add(task)
            task.add_done_callback(serving.discard)

    async def _serve(self, client: socket.socket) -> None:
        server = socket.socket()
        server.setblocking(False)
        with client, server:
            try:
                await self._open.wait()
                if _is_closed(client):
                    return
                await self._loop.sock_connect(server, ("127.0.0.1", self._target))
                server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except OSError:
                return
            directions = [
                self._loop.create_task(self._forward(client, server)),
                self._loop.create_task(self._forward(server, client)),
            ]
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
            for direction in directions:
                direction.cancel()
            await asyncio.gather(*directions, return_exceptions=True)

    async def _forward(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                await self._open.wait()
                number = self._partitions
                data = await self._loop.sock_recv(source, CHUNK)
                if self._partitions != number:  # it arrived during a partition
                    await self._open.wait()
                    if _is_closed(source):
                        return
                if not data:
                    return
                await self._loop.sock_sendall(sink, data)


def _is_closed(connection: socket.socket) -> bool:
    """Report whether the peer has closed or reset the connection, even if there is data to be read."""
    poll = select.poll()
    poll.register(connection, CLOSED)
    return bool(poll.poll(0))
