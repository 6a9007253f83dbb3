from __future__ import annotations

import asyncio

import pytest

from kcm.runtime.serving.authorization import EverythingAllowed
from kcm.runtime.serving.local_hosts import names_this_host
from kcm.runtime.serving.site import Site, build_application
from tests.runtime.serving.conftest import client_of


@pytest.mark.parametrize(
    "host", ["localhost", "LocalHost:10252", "localhost.:1", "127.0.0.1:10252", "127.9.9.9", "[::1]:10252", "[::1]", ""]
)
def test_names_and_addresses_of_this_host(host: str) -> None:
    assert names_this_host(host)


@pytest.mark.parametrize(
    "host",
    [
        "rebound.example:10252",
        "localhost.example",
        "127.0.0.1.example",
        "10.0.0.1",
        "0.0.0.0:10252",
        "[::1",
        "localhost:1:2",
        "localhost:x",
        "rebound.example@localhost",
    ],
)
def test_names_and_addresses_of_other_hosts_are_rejected(host: str) -> None:
    assert not names_this_host(host)


def statuses(site: Site, *, local: bool, **headers: str) -> int:
    async def exchange() -> int:
        application = build_application(site, EverythingAllowed(), local=local)
        async with client_of(application) as client:
            return (await client.get("/debug/pprof/cmdline", headers=headers)).status

    return asyncio.run(exchange())


def test_local_application_rejects_other_host_names(site: Site) -> None:
    assert statuses(site, local=True, Host="rebound.example:10252") == 403
    assert statuses(site, local=True) == 200
    assert statuses(site, local=False, Host="manager.example:10252") == 200
