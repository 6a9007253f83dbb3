from __future__ import annotations

from typing import Any

import pytest

from kcm.runtime.client.api import Request
from kcm.runtime.client.config import ClientConfig, Credential
from kcm.runtime.client.credentials import ANONYMOUS, FixedCredential
from kcm.runtime.client.request_form import RequestForm
from kcm.runtime.client.user_agent import UserAgents


def request_form(server: str, **fields: Any) -> RequestForm:
    config = ClientConfig(server=server, origin="test", credentials=FixedCredential(ANONYMOUS), **fields)
    return RequestForm(config, agents=UserAgents(program="kcm", version="1", platform="linux/amd64", commit="c0ffee"))


def headers(form: RequestForm, request: Request, credential: Credential = ANONYMOUS) -> list[str]:
    return [line.decode() for line in form.headers(request, client="c", credential=credential)]


def test_a_request_is_its_url_and_its_headers() -> None:
    form = request_form("https://api.example.com:6443", impersonation=(("Impersonate-User", "jane"),))
    request = Request(method="POST", path="/api/v1/pods", body=b"{}", query={"dryRun": "All", "pretty": "a b"})
    assert form.url(request) == "https://api.example.com:6443/api/v1/pods?dryRun=All&pretty=a%20b"
    assert headers(form, request, Credential(authorization="Bearer t")) == [
        "Host: api.example.com:6443",
        "Impersonate-User: jane",
        "User-Agent: kcm/1 (linux/amd64) kubernetes/c0ffee/c",
        "Accept: application/json",
        "Accept-Encoding: identity",
        "Content-Type: application/json",
        "Expect:",
        "Authorization: Bearer t",
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
    form, request = request_form(server), Request(method="GET", path="/")
    assert f"Host: {host}" in headers(form, request)
    assert host in form.url(request)


def test_the_url_names_whom_the_certificate_has_to_and_the_host_header_whom_we_ask() -> None:
    form, request = (
        request_form("https://10.0.0.1:6443/k8s", tls_server_name="kubernetes"),
        Request(method="GET", path="/version"),
    )
    assert form.url(request) == "https://kubernetes:6443/k8s/version"
    assert "Host: 10.0.0.1:6443" in headers(form, request)
    plain = request_form("http://10.0.0.1:8080", tls_server_name="kubernetes")
    assert plain.url(request) == "http://10.0.0.1:8080/version"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_a_write_without_a_body_says_nothing_of_its_type(method: str) -> None:
    assert "Content-Type:" in headers(request_form("https://api"), Request(method=method, path="/"))


def test_equal_headers_are_one_object_until_there_is_another_credential() -> None:
    form, request = request_form("https://api"), Request(method="GET", path="/")
    one, two = Credential(authorization="Bearer one"), Credential(authorization="Bearer two")
    first = form.headers(request, client="c", credential=one)
    assert form.headers(request, client="c", credential=one) is first
    assert "Authorization: Bearer one" in headers(form, request, one)
    assert "Authorization: Bearer two" in headers(form, request, two)


@pytest.mark.parametrize("end", ["\r", "\n", "\0"])
def test_a_header_that_would_be_two_is_an_error(end: str) -> None:
    form = request_form("https://api", impersonation=(("Impersonate-User", f"jane{end}Impersonate-Group: admins"),))
    with pytest.raises(ValueError, match="Impersonate-User"):
        headers(form, Request(method="GET", path="/"))
