from __future__ import annotations

from typing import Any

import pytest

from runtime.client.api import Request
from runtime.client.config import ClientConfig, Credential
from runtime.client.credentials import ANONYMOUS, FixedCredential
from runtime.client.request_bytes import RequestBytes


def request_bytes(server: str, **fields: Any) -> RequestBytes:
    config = ClientConfig(server=server, origin="test", credentials=FixedCredential(ANONYMOUS), **fields)
    return RequestBytes(config, user_agent_base="kcm/1")


def said(made: RequestBytes, request: Request, credential: Credential = ANONYMOUS) -> str:
    return made.of(request, client="c", credential=credential).decode()


def test_a_request_is_its_line_its_headers_and_its_body() -> None:
    made = request_bytes("https://api.example.com:6443", impersonation=(("Impersonate-User", "jane"),))
    request = Request(method="POST", path="/api/v1/pods", body=b"{}", query={"dryRun": "All"})
    assert said(made, request, Credential(authorization="Bearer t")).split("\r\n") == [
        "POST /api/v1/pods?dryRun=All HTTP/1.1",
        "Host: api.example.com:6443",
        "Impersonate-User: jane",
        "User-Agent: kcm/1 c",
        "Accept: application/json",
        "Accept-Encoding: identity",
        "Content-Type: application/json",
        "Authorization: Bearer t",
        "Content-Length: 2",
        "",
        "{}",
    ]


@pytest.mark.parametrize(
    ("server", "host"),
    [
        ("https://api", "api"),
        ("https://api:443", "api"),
        ("http://[::1]:8080", "[::1]:8080"),
        ("https://bücher.example", "xn--bcher-kva.example"),
    ],
)
def test_the_host_is_named_as_http_wants_it(server: str, host: str) -> None:
    assert f"\r\nHost: {host}\r\n" in said(request_bytes(server), Request(method="GET", path="/"))


@pytest.mark.parametrize(("method", "says"), [("GET", False), ("POST", True), ("PUT", True), ("DELETE", True)])
def test_a_write_without_a_body_says_that_it_has_none(method: str, says: bool) -> None:
    text = said(request_bytes("https://api"), Request(method=method, path="/"))
    assert ("\r\nContent-Length: 0\r\n" in text) is says
    assert text.endswith("\r\n\r\n")
    assert "Content-Type" not in text


def test_a_new_credential_is_in_the_next_request() -> None:
    made, request = request_bytes("https://api"), Request(method="GET", path="/")
    assert "Bearer one" in said(made, request, Credential(authorization="Bearer one"))
    assert "Bearer two" in said(made, request, Credential(authorization="Bearer two"))


@pytest.mark.parametrize("end", ["\r", "\n", "\0"])
def test_a_header_that_would_be_two_is_an_error(end: str) -> None:
    made = request_bytes("https://api", impersonation=(("Impersonate-User", f"jane{end}Impersonate-Group: admins"),))
    with pytest.raises(ValueError, match="Impersonate-User"):
        said(made, Request(method="GET", path="/"))


def test_a_forwarding_proxy_receives_the_target_and_our_credentials() -> None:
    text = said(
        request_bytes("http://api:8080/k8s", proxy="http://us%40er:p%3Aw@proxy"), Request(method="GET", path="/x")
    )
    assert text.startswith("GET http://api:8080/k8s/x HTTP/1.1\r\nHost: api:8080\r\n")
    assert "\r\nProxy-Authorization: Basic dXNAZXI6cDp3\r\n" in text


def test_through_a_proxys_tunnel_the_server_sees_no_trace_of_it() -> None:
    text = said(request_bytes("https://api", proxy="http://user:pw@proxy"), Request(method="GET", path="/x"))
    assert text.startswith("GET /x HTTP/1.1\r\n")
    assert "Proxy" not in text
