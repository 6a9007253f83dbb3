import asyncio
from collections.abc import Iterator
from typing import Any

import aiohttp
import orjson
import pytest

from runtime.apiserver.http import streams
from runtime.apiserver.http.streams import WatchStream
from tests.runtime.apiserver.http.served import NOW, PODS, Served, run, until
from tests.runtime.apiserver.stores import HeldStore

TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}


async def events(response: aiohttp.ClientResponse, count: int) -> list[tuple[str, Any]]:
    found = []
    for _ in range(count):
        event = orjson.loads(await response.content.readline())
        found.append((event["type"], event["object"]))
    return found


def test_a_watch_sends_the_state_and_then_the_changes() -> None:
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


def test_a_watch_sends_durable_changes_only() -> None:
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


def test_a_watch_ends_cleanly_when_its_time_is_over() -> None:
    async def scenario(served: Served) -> None:
        async with served.session.get(f"{served.url}{PODS}?watch=true&timeoutSeconds=5") as response:
            served.api.tick(NOW + 5)
            assert await response.read() == b""
        assert served.api.next_tick() is None

    run(scenario)


def test_a_watch_from_a_forgotten_version_gets_an_error_event() -> None:
    async def scenario(served: Served) -> None:
        refused = await served.get(f"{PODS}?watch=true&resourceVersion=x")
        assert refused.status == 400
        future = await served.get(f"{PODS}?watch=true&resourceVersion=99999&sendInitialEvents=true")
        assert future.json["kind"] == "Status"

    run(scenario)


def test_a_client_that_leaves_a_silent_watch_is_forgotten() -> None:
    async def scenario(served: Served) -> None:
        response = await served.session.get(f"{served.url}{PODS}?watch=true")
        assert served.api.next_tick() is not None
        response.close()
        await until(lambda: served.api.next_tick() is None)
        assert served.logs.entries == []

    run(scenario)


def test_watches_end_in_good_order_when_the_server_stops() -> None:
    async def scenario(served: Served) -> None:
        await served.create("a")
        async with served.session.get(f"{served.url}{PODS}?watch=true") as response:
            await events(response, 1)
            served.front.end_watches()
            assert await response.read() == b""
        assert (await served.get(PODS)).status == 200

    run(scenario)


def test_people_watch_tables() -> None:
    async def scenario(served: Served) -> None:
        await served.create("a")
        async with served.session.get(f"{served.url}{PODS}?watch=true", headers=TABLE) as response:
            await served.create("b")
            (_, first), (_, second) = await events(response, 2)
            assert [row["cells"][0] for row in first["rows"] + second["rows"]] == ["a", "b"]
            assert bool(first["columnDefinitions"]) is True
            assert second["columnDefinitions"] == []

    run(scenario)


def test_a_client_that_reads_nothing_is_cut_off() -> None:
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


class Wire:
    """What a stream writes; each write waits until it is let through."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.open = asyncio.Event()

    async def write(self, data: bytes) -> None:
        self.written.append(data)
        await self.open.wait()


def same(lines: bytes) -> bytes:
    return lines


def test_what_gathers_while_the_wire_is_busy_is_written_at_once() -> None:
    async def scenario() -> None:
        wire, stream = Wire(), WatchStream(too_slow=lambda: None, most_waiting=100)
        stream.deliver(b"a\n")
        pump = asyncio.create_task(stream.pump(wire.write, same))
        await until(lambda: bool(wire.written))
        stream.deliver(b"b\n")
        stream.deliver(b"c\n")
        stream.end()
        stream.deliver(b"too late\n")
        wire.open.set()
        await pump
        assert wire.written == [b"a\n", b"b\nc\n"]

    asyncio.run(scenario())


def test_too_much_waiting_ends_the_stream_but_a_large_beginning_does_not() -> None:
    async def scenario() -> None:
        cuts: list[int] = []
        wire, stream = Wire(), WatchStream(too_slow=lambda: cuts.append(1), most_waiting=100)
        stream.deliver(b"x" * 1000)
        pump = asyncio.create_task(stream.pump(wire.write, same))
        await until(lambda: bool(wire.written))
        stream.deliver(b"x" * 60)
        assert cuts == []
        stream.deliver(b"x" * 60)
        stream.deliver(b"x" * 60)
        assert cuts == [1]
        wire.open.set()
        await pump
        assert wire.written == [b"x" * 1000]

    asyncio.run(scenario())


def test_what_there_is_at_the_beginning_is_made_as_it_is_taken() -> None:
    async def scenario() -> None:
        cuts: list[int] = []
        made: list[int] = []

        def lines() -> Iterator[bytes]:
            for number in range(1000):
                made.append(number)
                yield b"x" * 9_999 + b"\n"

        wire, stream = Wire(), WatchStream(too_slow=lambda: cuts.append(1), most_waiting=100)
        stream.begin(lines())
        stream.deliver(b"later\n")
        stream.end()
        pump = asyncio.create_task(stream.pump(wire.write, same))
        await until(lambda: bool(wire.written))
        assert len(made) < 50
        wire.open.set()
        await pump
        assert len(b"".join(wire.written)) == 10_000_006
        assert wire.written[-1].endswith(b"later\n")
        assert max(map(len, wire.written)) < 300_000
        assert cuts == []

    asyncio.run(scenario())


def test_a_client_that_takes_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "STALLED", 0.01)

    async def scenario() -> None:
        cuts: list[int] = []
        stream = WatchStream(too_slow=lambda: cuts.append(1))
        stream.deliver(b"a\n")
        await stream.pump(Wire().write, same)
        assert cuts == [1]

    asyncio.run(scenario())
