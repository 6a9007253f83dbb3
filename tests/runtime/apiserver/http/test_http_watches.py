import asyncio
from collections.abc import Iterator
from typing import Any

import aiohttp
import orjson

from kcm.runtime.apiserver.http.streams import WatchStream
from tests.runtime.apiserver.http.served import NOW, PODS, Served, run, until
from tests.runtime.apiserver.stores import HeldStore

TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}


async def events(response: aiohttp.ClientResponse, count: int) -> list[tuple[str, Any]]:
    found = []
    for _ in range(count):
        event = orjson.loads(await response.content.readline())
        found.append((event["type"], event["object"]))
    return found


def test_watch_delivers_the_state_and_then_changes() -> None:
    async def scenario(served: Served) -> None:
        await served.create("a")
        async with served.session.get(f"{served.url}{PODS}?watch=true") as response:
            assert (response.status, response.headers["Content-Type"]) == (200, "application/json")
            ((type_, first),) = await events(response, 1)
            assert (type_, first["metadata"]["name"]) == ("ADDED", "a")
            await served.create("b")
            await served.ask("DELETE", f"{PODS}/b")
            assert [type_ for type_, _ in await events(response, 2)] == ["ADDED", "DELETED"]

    run(scenario)


def test_watch_delivers_only_durable_changes() -> None:
    store = HeldStore()

    async def scenario(served: Served) -> None:
        store.release()
        async with served.session.get(f"{served.url}{PODS}?watch=true&resourceVersion=1") as response:
            create = asyncio.create_task(served.create("a"))
            await until(lambda: bool(store.held))
            line = asyncio.create_task(response.content.readline())
            done, _ = await asyncio.wait([line], timeout=0.1)
            assert not done
            store.release()
            assert orjson.loads(await line)["type"] == "ADDED"
            await create

    run(scenario, store=store)


def test_watch_ends_after_its_timeout() -> None:
    async def scenario(served: Served) -> None:
        async with served.session.get(f"{served.url}{PODS}?watch=true&timeoutSeconds=5") as response:
            served.api.tick(NOW + 5)
            assert await response.read() == b""
        assert served.api.next_tick() is None

    run(scenario)


def test_watch_from_an_expired_version_gets_an_error_event() -> None:
    async def scenario(served: Served) -> None:
        refused = await served.get(f"{PODS}?watch=true&resourceVersion=x")
        assert refused.status == 500  # as upstream, without a reason
        future = await served.get(f"{PODS}?watch=true&resourceVersion=99999&sendInitialEvents=true")
        assert future.json["kind"] == "Status"

    run(scenario)


def test_watch_ends_when_its_client_disconnects() -> None:
    async def scenario(served: Served) -> None:
        response = await served.session.get(f"{served.url}{PODS}?watch=true")
        assert served.api.next_tick() is not None
        response.close()
        await until(lambda: served.api.next_tick() is None)
        assert served.logs.entries == []

    run(scenario)


def test_watches_end_cleanly_when_the_server_stops() -> None:
    async def scenario(served: Served) -> None:
        await served.create("a")
        async with served.session.get(f"{served.url}{PODS}?watch=true") as response:
            await events(response, 1)
            served.front.end_watches()
            assert await response.read() == b""
        assert (await served.get(PODS)).status == 200

    run(scenario)


def test_watch_delivers_tables_if_accepted() -> None:
    async def scenario(served: Served) -> None:
        await served.create("a")
        async with served.session.get(f"{served.url}{PODS}?watch=true", headers=TABLE) as response:
            await served.create("b")
            (_, first), (_, second) = await events(response, 2)
            assert [row["cells"][0] for row in first["rows"] + second["rows"]] == ["a", "b"]
            assert bool(first["columnDefinitions"]) is True
            assert second["columnDefinitions"] is None

    run(scenario)


def test_watch_of_a_client_that_does_not_read_is_cut_off() -> None:
    async def scenario(served: Served) -> None:
        host, port = served.url.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(host, int(port), limit=1)
        writer.write(f"GET {PODS}?watch=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\n\r\n".encode())
        await until(lambda: served.api.next_tick() is not None)
        fat = {"metadata": {"name": "a", "annotations": {"fat": "x" * 200_000}}}
        for i in range(200):
            fat["metadata"]["name"] = f"p{i}"
            await served.ask("POST", PODS, json={**fat, "spec": {"containers": [{"name": "c", "image": "i"}]}})
            if served.logs.entries:
                break
        (entry,) = served.logs.entries
        assert entry["event"] == "watch cut off, its client is too slow"
        await until(lambda: served.api.next_tick() is None)
        writer.close()
        assert (await served.get(f"{PODS}/p0")).status == 200

    run(scenario)


class FakeWire:
    """Records the writes of a stream, and is full after each write until `drain`."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.held: list[int] = []
        self.is_full = self.finished = False

    def write(self, data: bytes) -> None:
        assert not self.is_full
        self.written.append(data)
        self.is_full = True

    def hold(self, size: int) -> None:
        self.held.append(size)

    def finish(self) -> None:
        self.finished = True

    async def drain(self, stream: WatchStream) -> None:
        """Report space until the stream has written everything."""
        while self.is_full:
            self.is_full = False
            stream.on_room()
            await turn()


async def turn() -> None:
    await asyncio.sleep(0)


class StreamCallbacks:
    """Recorder of the callbacks of a stream: "cut" and "over"."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def stream(self, wire: FakeWire, **options: Any) -> WatchStream:
        return WatchStream(
            wire, too_slow=lambda: self.words.append("cut"), on_end=lambda: self.words.append("over"), **options
        )


def test_lines_of_one_turn_or_of_a_busy_connection_are_written_together() -> None:
    async def scenario() -> None:
        wire, callbacks = FakeWire(), StreamCallbacks()
        stream = callbacks.stream(wire)
        stream.deliver(b"a\n")
        stream.deliver(b"b\n")
        await turn()
        assert wire.written == [b"a\nb\n"]
        stream.deliver(b"c\n")
        await turn()
        stream.deliver(b"d\n")
        stream.end()
        stream.deliver(b"too late\n")
        await wire.drain(stream)
        await turn()
        assert wire.written == [b"a\nb\n", b"c\nd\n"]
        assert (wire.finished, callbacks.words) == (True, ["over"])

    asyncio.run(scenario())


def test_stream_ends_if_too_many_bytes_wait_except_initial_ones() -> None:
    async def scenario() -> None:
        wire, callbacks = FakeWire(), StreamCallbacks()
        stream = callbacks.stream(wire, most_waiting=100)
        stream.deliver(b"x" * 1000)
        await turn()
        stream.deliver(b"x" * 60)
        assert callbacks.words == []
        stream.deliver(b"x" * 60)
        stream.deliver(b"x" * 60)
        assert callbacks.words == ["cut", "over"]
        await wire.drain(stream)
        assert wire.written == [b"x" * 1000]

    asyncio.run(scenario())


def test_initial_lines_are_generated_as_they_are_read() -> None:
    async def scenario() -> None:
        made: list[int] = []

        def lines() -> Iterator[bytes]:
            for number in range(1000):
                made.append(number)
                yield b"x" * 9_999 + b"\n"

        wire, callbacks = FakeWire(), StreamCallbacks()
        stream = callbacks.stream(wire, most_waiting=100)
        stream.begin(lines())
        stream.deliver(b"later\n")
        stream.end()
        await turn()
        assert len(made) < 50
        await wire.drain(stream)
        assert len(b"".join(wire.written)) == 10_000_006
        assert wire.written[-1].endswith(b"later\n")
        assert max(map(len, wire.written)) < 300_000
        await turn()
        assert callbacks.words == ["over"]

    asyncio.run(scenario())


def test_buffered_bytes_of_a_slow_client_are_reported() -> None:
    async def scenario() -> None:
        wire, callbacks = FakeWire(), StreamCallbacks()
        stream = callbacks.stream(wire)
        stream.deliver(b"a\n")
        await turn()
        assert wire.held == []  # no unsent bytes are known
        stream.deliver(b"bb\n")
        stream.deliver(b"ccc\n")
        assert wire.held == [3, 7]
        await wire.drain(stream)
        assert (wire.held, wire.written[1:]) == ([3, 7, 0], [b"bb\nccc\n"])
        stream.on_lost()
        stream.deliver(b"d\n")
        await turn()
        assert (len(wire.written), callbacks.words) == (2, ["over"])

    asyncio.run(scenario())


def test_error_while_rendering_a_line_ends_the_watch() -> None:
    async def scenario() -> None:
        caught: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: caught.append(context["exception"]))
        wire, callbacks = FakeWire(), StreamCallbacks()
        callbacks.stream(wire, shown=lambda lines: bytes(1 // (len(lines) - len(lines)))).deliver(b"a\n")
        await turn()
        assert (wire.written, callbacks.words, [type(each) for each in caught]) == (
            [],
            ["cut", "over"],
            [ZeroDivisionError],
        )

    asyncio.run(scenario())
