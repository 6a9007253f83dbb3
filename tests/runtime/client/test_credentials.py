"""A bearer token that is read from a file."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from structlog.testing import LogCapture
from structlog.typing import FilteringBoundLogger

from kcm.runtime.client.config import ConfigError, Credential
from kcm.runtime.client.credentials import HOLD_OFF, TOKEN_FILE_PERIOD, CredentialCache, TokenFile
from kcm.runtime.simulation.clock import VirtualClock


def test_token_file_is_read_at_each_load(tmp_path: Path) -> None:
    path = tmp_path / "token"
    source = TokenFile(str(path), origin="users[a].tokenFile")
    path.write_text(" one\n")
    assert source.load() == Credential(authorization="Bearer one", lifetime=TOKEN_FILE_PERIOD)
    path.write_text("two")
    assert source.load() == Credential(authorization="Bearer two", lifetime=TOKEN_FILE_PERIOD)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "cannot read .*: No such file"),
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"a b", "not a bearer token"),
        (b"\xff\xfe", "not a bearer token"),
    ],
)
def test_a_token_file_without_a_token_is_named(tmp_path: Path, content: bytes | None, says: str) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=f"^users.a..tokenFile: .*{says}"):
        TokenFile(str(path), origin="users[a].tokenFile").load()


PATIENCE = 10.0


class Source:
    """Source that returns the given credentials in order, and raises an error for a string."""

    def __init__(self, *credentials: Credential | str) -> None:
        self.credentials = list(credentials)
        self.asked = 0
        self.open = threading.Event()
        self.open.set()

    def load(self) -> Credential:
        self.asked += 1
        assert self.open.wait(PATIENCE)
        gift = self.credentials.pop(0)
        if isinstance(gift, str):
            raise ConfigError(gift)
        return gift


def token(name: str, *, lifetime: float = math.inf) -> Credential:
    return Credential(authorization=f"Bearer {name}", lifetime=lifetime)


Scenario = Callable[[CredentialCache, VirtualClock], Awaitable[None]]


@pytest.fixture
def run_scenario(log: FilteringBoundLogger) -> Callable[[Source, Scenario], None]:
    def run_scenario(source: Source, scenario: Scenario) -> None:
        async def run() -> None:
            clock = VirtualClock()
            await scenario(CredentialCache(source, clock=clock, log=log), clock)

        asyncio.run(run())

    return run_scenario


async def current(cache: CredentialCache) -> str:
    return (cache.held() or await cache.renewed()).authorization


def test_credential_is_kept_until_it_expires(run_scenario: Callable[[Source, Scenario], None]) -> None:
    source = Source(token("one", lifetime=60.0), token("two", lifetime=60.0))

    async def scenario(cache: CredentialCache, clock: VirtualClock) -> None:
        assert await current(cache) == "Bearer one"
        clock.advance_to(59.9)
        assert await current(cache) == "Bearer one"
        clock.advance_to(60.0)
        assert await current(cache) == "Bearer two"

    run_scenario(source, scenario)
    assert source.asked == 2


def test_concurrent_callers_cause_one_load(run_scenario: Callable[[Source, Scenario], None]) -> None:
    source = Source(token("one"))

    async def scenario(cache: CredentialCache, clock: VirtualClock) -> None:
        assert len(set(await asyncio.gather(*(current(cache) for _ in range(20))))) == 1

    run_scenario(source, scenario)
    assert source.asked == 1


def test_cancelled_caller_does_not_stop_the_load_for_others(run_scenario: Callable[[Source, Scenario], None]) -> None:
    source = Source(token("one"))
    source.open.clear()

    async def scenario(cache: CredentialCache, clock: VirtualClock) -> None:
        hasty, patient = asyncio.create_task(current(cache)), asyncio.create_task(current(cache))
        await asyncio.sleep(0)
        hasty.cancel()
        await asyncio.wait([hasty])
        source.open.set()
        assert await patient == "Bearer one"

    run_scenario(source, scenario)


def test_failed_first_load_raises_and_is_not_retried_at_once(
    run_scenario: Callable[[Source, Scenario], None],
) -> None:
    source = Source("not logged in", token("one"))

    async def scenario(cache: CredentialCache, clock: VirtualClock) -> None:
        for _ in range(3):
            with pytest.raises(ConfigError, match="not logged in"):
                await current(cache)
        assert source.asked == 1
        clock.advance_to(HOLD_OFF)
        assert await current(cache) == "Bearer one"

    run_scenario(source, scenario)


def test_the_last_credential_stays_in_use_while_the_source_fails(
    run_scenario: Callable[[Source, Scenario], None], logs: LogCapture
) -> None:
    source = Source(token("one", lifetime=60.0), "gone", token("two"))

    async def scenario(cache: CredentialCache, clock: VirtualClock) -> None:
        await current(cache)
        clock.advance_to(60.0)
        assert await current(cache) == "Bearer one"
        assert await current(cache) == "Bearer one"
        clock.advance_to(60.0 + HOLD_OFF)
        assert await current(cache) == "Bearer two"

    run_scenario(source, scenario)
    assert source.asked == 3
    assert [(entry["event"], entry["error"]) for entry in logs.entries] == [("no new credentials", "gone")]


def test_rejected_credential_is_replaced_with_a_pause_between_loads(
    run_scenario: Callable[[Source, Scenario], None],
) -> None:
    source = Source(token("one"), token("two"), token("two"))

    async def scenario(cache: CredentialCache, clock: VirtualClock) -> None:
        first = await cache.renewed()
        assert not await cache.refused(first)  # it has just been loaded
        clock.advance_to(HOLD_OFF)
        assert await cache.refused(first)
        assert await cache.refused(first)  # replaced already
        second = cache.held()
        assert second == token("two")
        clock.advance_to(2 * HOLD_OFF)
        assert not await cache.refused(second)  # the source has no other credential

    run_scenario(source, scenario)
    assert source.asked == 3


def test_credential_that_is_already_expired_is_not_loaded_for_every_request(
    run_scenario: Callable[[Source, Scenario], None],
) -> None:
    source = Source(token("one", lifetime=-5.0))

    async def scenario(cache: CredentialCache, clock: VirtualClock) -> None:
        await current(cache)
        assert await current(cache) == "Bearer one"

    run_scenario(source, scenario)
    assert source.asked == 1
