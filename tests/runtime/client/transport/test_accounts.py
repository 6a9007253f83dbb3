"""Clients with their own service accounts, over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiohttp import web

from kcm.protocols.times import format_time
from kcm.runtime.client.config import Credential, Pem
from kcm.runtime.client.credentials import HOLD_OFF, FixedCredential

ROOT = FixedCredential(Credential(authorization="Bearer root"))
Connect = Callable[..., Any]


class Accounts:
    """Server that issues tokens "<account>-1", "<account>-2", …, and accepts the newest of each account."""

    def __init__(self, clock: Any, *, allowed: bool = True) -> None:
        self.clock, self.allowed = clock, allowed
        self.given: dict[str, int] = {}
        self.seen: list[tuple[str, str, str]] = []  # authorization, user agent, method and path
        self.certificates: list[bool] = []
        self.impersonated: list[str] = []

    def revoke(self, account: str) -> None:
        self.given[account] += 100

    async def __call__(self, request: web.BaseRequest) -> web.Response:
        authorization = request.headers.get("Authorization", "")
        parts = request.path.split("/")
        if "serviceaccounts" in parts:
            assert authorization == "Bearer root"
            return self._of_account(request.method, parts)
        agent = request.headers["User-Agent"].rpartition("/")[2]
        self.seen.append((authorization, agent, f"{request.method} {request.path}"))
        self.impersonated.append(request.headers.get("Impersonate-User", ""))
        transport = request.transport
        assert transport is not None
        self.certificates.append(bool(transport.get_extra_info("peercert")))
        name, _, number = authorization.removeprefix("Bearer ").rpartition("-")
        good = authorization == "Bearer root" or number == str(self.given.get(name))
        return web.Response(status=200 if good else 401)

    def _of_account(self, method: str, parts: list[str]) -> web.Response:
        if parts[-1] != "token":
            return web.json_response({})
        if not self.allowed:
            return web.json_response({"message": "cannot create serviceaccounts/token"}, status=403)
        name = parts[-2]
        self.given[name] = self.given.get(name, 0) + 1
        ends = format_time(self.clock.now() + 3600.0)
        return web.json_response({"status": {"token": f"{name}-{self.given[name]}", "expirationTimestamp": ends}})


def test_each_account_has_its_token_and_other_clients_use_that_of_the_manager(
    connect: Connect, loopback: Any, hand_clock: Any
) -> None:
    accounts = Accounts(hand_clock)
    config = {"credentials": ROOT, "impersonation": (("Impersonate-User", "jane"),)}
    client = connect(loopback.serve(accounts), config=config, clock=hand_clock, accounts=("a", "b"))
    for name in ("a", "b", "a", "informers"):
        assert client.request("GET", client=name).status == 200
    user = "system:serviceaccount:kube-system:"
    assert [request[:2] for request in accounts.seen] == [
        ("Bearer a-1", f"{user}a"),
        ("Bearer b-1", f"{user}b"),
        ("Bearer a-1", f"{user}a"),
        ("Bearer root", "informers"),
    ]
    assert accounts.impersonated == ["", "", "", "jane"]
    assert accounts.given == {"a": 1, "b": 1}


def test_token_is_replaced_before_it_expires(connect: Connect, loopback: Any, hand_clock: Any) -> None:
    accounts = Accounts(hand_clock)
    config = {"credentials": ROOT}
    client = connect(loopback.serve(accounts), config=config, clock=hand_clock, accounts=("a",))
    for seconds in (0.0, 2879.0, 2.0):
        hand_clock.advance(seconds)
        assert client.request("POST", client="a", body=b"{}").status == 200
    assert [request[0] for request in accounts.seen] == ["Bearer a-1", "Bearer a-1", "Bearer a-2"]


def test_rejected_token_is_replaced_at_once(connect: Connect, loopback: Any, hand_clock: Any) -> None:
    accounts = Accounts(hand_clock)
    config = {"credentials": ROOT}
    client = connect(loopback.serve(accounts), config=config, clock=hand_clock, accounts=("a",))
    assert client.request("POST", client="a", body=b"{}").status == 200
    accounts.revoke("a")
    hand_clock.advance(HOLD_OFF)
    assert client.request("POST", client="a", body=b"{}").status == 200
    assert [request[0] for request in accounts.seen] == ["Bearer a-1", "Bearer a-1", "Bearer a-102"]


def test_requests_report_the_missing_permission_for_tokens(connect: Connect, loopback: Any, hand_clock: Any) -> None:
    accounts = Accounts(hand_clock, allowed=False)
    config = {"credentials": ROOT}
    client = connect(loopback.serve(accounts), config=config, clock=hand_clock, accounts=("a",))
    answer = client.request("POST", client="a", body=b"{}")
    assert (answer.status, answer.sent) == (0, False)
    assert answer.error == (
        "no credentials: failed to get token for kube-system/a: create serviceaccounts/token kube-system/a: "
        "cannot create serviceaccounts/token"
    )
    assert client.request("GET", client="informers").status == 200
    accounts.allowed = True
    hand_clock.advance(HOLD_OFF)
    assert client.request("POST", client="a", body=b"{}").status == 200


def test_account_does_not_send_the_certificate_of_the_manager(
    connect: Connect, loopback: Any, hand_clock: Any, certificates: Any, server_tls: Any
) -> None:
    accounts = Accounts(hand_clock)
    admin = certificates.admin
    config = {
        "credentials": ROOT,
        "ca": Pem(origin="test", path=str(certificates.authority.certificate)),
        "certificate": Pem(origin="test", path=str(admin.certificate)),
        "key": Pem(origin="test", path=str(admin.key)),
    }
    url = loopback.serve(accounts, tls=server_tls)
    client = connect(url, config=config, clock=hand_clock, accounts=("a",))
    for name in ("informers", "a", "informers", "a"):
        assert client.request("GET", client=name).status == 200
    assert accounts.certificates == [True, False, True, False]
