"""Authentication of requests, over real connections with client certificates."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from cryptography import x509

from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.scheduling.clock import SystemClock
from kcm.runtime.serving.authentication import (
    AUTHENTICATED,
    ByCertificate,
    CertificateOrToken,
    ProxyHeaders,
    UnauthorizedError,
    bearer_token,
)
from kcm.runtime.serving.authorization import ANONYMOUS, PageAttributes, PageDecision, PageUser, PathsAllowed
from kcm.runtime.serving.server import PageListener, ServerThread
from kcm.runtime.serving.site import Site, build_application
from kcm.runtime.serving.tls import ServingTls, TlsSettings
from tests.support.certificates import Authority, Pair, client_context, handshake

HEADERS = ProxyHeaders(
    names=("front-proxy",),
    username=("x-remote-user",),
    group=("x-remote-group",),
    uid=("x-remote-uid",),
    extra=("x-remote-extra-",),
)
Status = tuple[int, str]  # and the message of a Status


class Rig:
    def __init__(self, directory: Path) -> None:
        self.clients, self.proxies = Authority(directory, "clients"), Authority(directory, "proxies")


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


@pytest.fixture
def ask_as(rig: Rig, site: Site, log: Any) -> Iterator[Callable[..., Status]]:
    """Return request_page(pair, path, knows=…), which sends a request to a server that trusts the named authorities."""
    running: list[ServerThread] = []

    def request_page(
        pair: Pair | None, path: str = "/metrics", *, knows: str = "clients proxies", **headers: str
    ) -> Status:
        settings = TlsSettings(**{word: str(getattr(rig, word).file) for word in knows.split()})
        tls = ServingTls(settings, clock=SystemClock(), log=log)
        known = ByCertificate(
            clients=tls.clients, proxies=tls.proxies, headers=lambda: HEADERS, now=SystemClock().now, metrics=Metrics()
        )
        application = build_application(site, PathsAllowed(["/healthz"]), authenticator=known)
        server = ServerThread(
            [PageListener(application=application, host="127.0.0.1", port=0, tls=tls.context)], log=log
        )
        server.start()
        running.append(server)
        return asyncio.run(fetch(server.addresses[0][1], path, client_context(pair=pair), headers))

    yield request_page
    for server in running:
        server.stop()


async def fetch(port: int, path: str, tls: ssl.SSLContext, headers: dict[str, str]) -> Status:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"https://127.0.0.1:{port}{path}", ssl=tls, headers=named) as response,
    ):
        text = await response.text()
        return response.status, json.loads(text)["message"] if response.status in (401, 403) else ""


def forbidden(name: str) -> Status:
    return 403, f'forbidden: User "{name}" cannot get path "/metrics"'


def test_client_certificate_names_the_user_and_masters_may_do_everything(
    rig: Rig, ask_as: Callable[..., Status]
) -> None:
    assert ask_as(None) == forbidden("system:anonymous")
    assert ask_as(rig.clients.issue("jane", groups=("dev",))) == forbidden("jane")
    assert ask_as(rig.clients.issue("jane"), "/healthz") == (200, "")
    assert ask_as(rig.clients.issue("root", groups=("dev", "system:masters"))) == (200, "")
    nameless = rig.clients.issue("", file="nameless", groups=("system:masters",))
    assert ask_as(nameless, knows="clients") == forbidden("system:anonymous")


def test_client_named_by_a_proxy_is_the_user(rig: Rig, ask_as: Callable[..., Status]) -> None:
    proxy, other = rig.proxies.issue("front-proxy"), rig.proxies.issue("other-proxy")
    user_header = {"x_remote_user": "jane"}
    assert ask_as(proxy, **user_header) == forbidden("jane")
    assert ask_as(proxy, **user_header, x_remote_group="system:masters") == (200, "")
    assert ask_as(other, **user_header, x_remote_group="system:masters") == (401, "Unauthorized")
    assert ask_as(rig.clients.issue("eve"), **user_header, x_remote_group="system:masters") == forbidden("eve")
    assert ask_as(None, **user_header, x_remote_group="system:masters") == forbidden("system:anonymous")
    # A proxy without user headers is an ordinary client, whose certificate no client CA has signed.
    assert ask_as(proxy) == (401, "Unauthorized")
    assert ask_as(proxy, knows="proxies") == forbidden("system:anonymous")
    assert ask_as(other, knows="proxies") == (401, "Unauthorized")


def test_uid_and_extra_attributes_of_a_proxied_user_reach_the_authorizer(rig: Rig, site: Site, log: Any) -> None:
    seen: list[PageAttributes] = []

    class Recorder:
        async def decide(self, attributes: PageAttributes) -> PageDecision:
            seen.append(attributes)
            return PageDecision(is_allowed=False, reason="no rule matches")

    tls = ServingTls(TlsSettings(proxies=str(rig.proxies.file)), clock=SystemClock(), log=log)
    known = ByCertificate(
        clients=tuple, proxies=tls.proxies, headers=lambda: HEADERS, now=SystemClock().now, metrics=Metrics()
    )
    application = build_application(site, Recorder(), authenticator=known)
    server = ServerThread([PageListener(application=application, host="127.0.0.1", port=0, tls=tls.context)], log=log)
    server.start()
    try:
        headers = {"x_remote_user": "jane", "x_remote_uid": "u-1", "x_remote_extra_acme.com%2fteam": "a"}
        context = client_context(pair=rig.proxies.issue("front-proxy"))
        answer = asyncio.run(fetch(server.addresses[0][1], "/metrics?x=1", context, headers))
    finally:
        server.stop()
    assert answer == (403, 'forbidden: User "jane" cannot get path "/metrics": no rule matches')
    [attributes] = seen
    assert (attributes.verb, attributes.path, attributes.user.uid) == ("get", "/metrics", "u-1")
    assert attributes.user.extra == {"acme.com/team": ["a"]}


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer abc", "abc"),
        ("bearer abc", "abc"),
        ("  Bearer abc  ", "abc"),
        ("Bearer abc def", "abc"),
        ("Bearer  abc", ""),  # the second part is empty
        ("Bearer", ""),
        ("Basic YTpi", ""),
        ("", ""),
    ],
)
def test_bearer_token_is_the_second_word_of_the_header(header: str, token: str) -> None:
    assert bearer_token(header) == token


class Tokens:
    """Authenticator that accepts one token."""

    async def user(self, token: str) -> PageUser:
        if token != "valid":
            raise UnauthorizedError("invalid bearer token")
        return PageUser(name="robot")


class Certificates:
    """Returns or raises the same for each request."""

    def __init__(self, result: PageUser | UnauthorizedError) -> None:
        self._result = result

    async def user(self, request: Any) -> PageUser:
        del request
        if isinstance(self._result, UnauthorizedError):
            raise self._result
        return self._result


@pytest.mark.parametrize(
    ("by_certificate", "header", "name"),
    [
        (ANONYMOUS, "", "system:anonymous"),
        (ANONYMOUS, "Bearer valid", "robot"),
        (ANONYMOUS, "Bearer other", None),
        (PageUser(name="jane"), "Bearer other", "jane"),
        (UnauthorizedError("unfit"), "Bearer valid", "robot"),
        (UnauthorizedError("unfit"), "", None),
    ],
)
def test_token_is_tried_after_the_certificate(
    by_certificate: PageUser | UnauthorizedError, header: str, name: str | None
) -> None:
    known = CertificateOrToken(Certificates(by_certificate), Tokens())
    request: Any = SimpleNamespace(header=lambda _name: header)
    if name is None:
        with pytest.raises(UnauthorizedError):
            asyncio.run(known.user(request))
    else:
        assert asyncio.run(known.user(request)).name == name


def request_over(end: ssl.SSLObject) -> Any:
    return SimpleNamespace(connection=SimpleNamespace(tls=end), header=lambda _name: "")


def without_chain(end: ssl.SSLObject) -> Any:
    """Return a request over a resumed session, which has only the certificate."""
    return request_over(
        SimpleNamespace(getpeercert=end.getpeercert, get_verified_chain=list, _sslobj=None)  # type: ignore[arg-type]
    )


def user_by(*clients: x509.Certificate, request: Any, now: datetime | None = None) -> PageUser:
    at = (now or datetime.now(UTC)).timestamp()
    known = ByCertificate(
        clients=lambda: clients, proxies=tuple, headers=lambda: HEADERS, now=lambda: at, metrics=Metrics()
    )
    return asyncio.run(known.user(request))


def test_removed_authority_is_not_trusted_on_open_connections(rig: Rig, log: Any) -> None:
    tls = ServingTls(TlsSettings(clients=str(rig.clients.file)), clock=SystemClock(), log=log)
    end = handshake(tls.context, client_context(pair=rig.clients.issue("jane")))[1]
    for request in (request_over(end), without_chain(end)):
        user = user_by(rig.clients.certificate, request=request)
        assert (user.name, user.groups) == ("jane", (AUTHENTICATED,))
        [credential] = user.extra["authentication.kubernetes.io/credential-id"]
        assert credential.startswith("X509SHA256=")
        with pytest.raises(UnauthorizedError):
            user_by(rig.proxies.certificate, request=request)
        assert user_by(request=request) == ANONYMOUS
    with pytest.raises(UnauthorizedError):
        user_by(rig.clients.certificate, request=without_chain(end), now=datetime.now(UTC) + timedelta(days=60))


def test_intermediate_authority_may_be_trusted_or_sent_by_the_client(rig: Rig, tmp_path: Path, log: Any) -> None:
    between = Authority(tmp_path, "between", signed_by=rig.clients)
    pair = between.issue("jane")
    trusted = ServingTls(TlsSettings(clients=str(between.file)), clock=SystemClock(), log=log)
    end = handshake(trusted.context, client_context(pair=pair))[1]
    assert user_by(between.certificate, request=request_over(end)).name == "jane"
    pair.certificate.write_bytes(pair.certificate.read_bytes() + between.file.read_bytes())
    rooted = ServingTls(TlsSettings(clients=str(rig.clients.file)), clock=SystemClock(), log=log)
    end = handshake(rooted.context, client_context(pair=pair))[1]
    assert user_by(rig.clients.certificate, request=request_over(end)).name == "jane"
