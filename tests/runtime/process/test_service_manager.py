"""Notifications to systemd."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcm.runtime.process.service_manager import ServiceManager


class Systemd:
    """Socket that receives notifications."""

    def __init__(self, address: str) -> None:
        self.environ = {"NOTIFY_SOCKET": address.replace("\0", "@")}
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.socket.setblocking(False)

    def received(self) -> list[str]:
        found = []
        while True:
            try:
                found.append(self.socket.recv(4096).decode())
            except BlockingIOError:
                return found


@pytest.fixture(params=["path", "abstract"])
def systemd(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Systemd]:
    address = str(tmp_path / "notify") if request.param == "path" else f"\0kcm-test-{os.getpid()}"
    manager = Systemd(address)
    yield manager
    manager.socket.close()


def test_readiness_is_reported_once_and_each_status_once(systemd: Systemd) -> None:
    manager = ServiceManager(systemd.environ, now=lambda: 0.0)
    manager.update("standing by\nfor another", is_ready=False)
    manager.update("leading", is_ready=True)
    manager.update("leading", is_ready=True)
    manager.stopping("draining")
    assert systemd.received() == [
        "STATUS=standing by for another",
        "READY=1\nSTATUS=leading",
        "STOPPING=1\nSTATUS=draining",
    ]


def test_sign_of_life_is_sent_twice_in_each_watchdog_period(systemd: Systemd) -> None:
    now = [100.0]
    environ = systemd.environ | {"WATCHDOG_USEC": "10000000", "WATCHDOG_PID": str(os.getpid())}
    manager = ServiceManager(environ, now=lambda: now[0])
    for now[0] in (100.0, 102.0, 105.0, 109.9, 110.0):
        manager.update("", is_ready=False)
    assert systemd.received() == ["WATCHDOG=1"] * 3


@pytest.mark.parametrize("watchdog", [{"WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "soon"}, {"WATCHDOG_USEC": "0"}])
def test_watchdog_of_another_process_is_ignored(systemd: Systemd, watchdog: dict[str, str]) -> None:
    manager = ServiceManager(systemd.environ | {"WATCHDOG_USEC": "10000000"} | watchdog, now=lambda: 0.0)
    manager.update("", is_ready=False)
    assert systemd.received() == []


def test_missing_service_manager_is_ignored(tmp_path: Path) -> None:
    for environ in ({}, {"NOTIFY_SOCKET": str(tmp_path / "gone")}):
        manager = ServiceManager(environ, now=lambda: 0.0)
        manager.update("ready", is_ready=True)
        manager.stopping("ending")
