from __future__ import annotations

from typing import Any

import pytest

from kcm.runtime.apiserver.http.user_agents import agent_prefix
from kcm.runtime.client.api import Request
from kcm.runtime.client.config import ClientConfig, Credential
from kcm.runtime.client.credentials import ANONYMOUS, FixedCredential
from kcm.runtime.client.request_form import RequestForm, UserAgents, program_or_error


def request_form(server: str, **fields: Any) -> RequestForm:
    config = ClientConfig(server=server, origin="test", credentials=FixedCredential(ANONYMOUS), **fields)
    return RequestForm(config, agents=UserAgents(program="kcm", version="1", platform="linux/amd64", commit="c0ffee"))


def headers(form: RequestForm, request: Request, credential: Credential = ANONYMOUS) -> list[str]:
    return [line.decode() for line in form.headers(request, client="c", credential=credential)]


def test_request_form_has_url_and_headers() -> None:
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


def test_traceparent_of_one_request_is_not_cached_for_others() -> None:
    form, plain = request_form("https://api"), Request(method="GET", path="/")
    before = headers(form, plain)
    assert headers(form, Request(method="GET", path="/", traceparent="00-a-b-01")) == [
        *before,
        "traceparent: 00-a-b-01",
    ]
    assert headers(form, plain) == before


@pytest.mark.parametrize(
    ("server", "host"),
    [
        ("https://api", "api"),
        ("https://api:443", "api"),
        ("http://[::1]:8080", "[::1]:8080"),
        ("https://bücher.example", "xn--bcher-kva.example"),
    ],
)
def test_host_header_has_the_form_of_http(server: str, host: str) -> None:
    form, request = request_form(server), Request(method="GET", path="/")
    assert f"Host: {host}" in headers(form, request)
    assert host in form.url(request)


def test_url_has_the_certificate_name_and_host_header_the_server() -> None:
    form, request = (
        request_form("https://10.0.0.1:6443/k8s", tls_server_name="kubernetes"),
        Request(method="GET", path="/version"),
    )
    assert form.url(request) == "https://kubernetes:6443/k8s/version"
    assert "Host: 10.0.0.1:6443" in headers(form, request)
    plain = request_form("http://10.0.0.1:8080", tls_server_name="kubernetes")
    assert plain.url(request) == "http://10.0.0.1:8080/version"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_write_without_body_has_no_content_type(method: str) -> None:
    assert "Content-Type:" in headers(request_form("https://api"), Request(method=method, path="/"))


def test_header_list_is_reused_until_the_credential_changes() -> None:
    form, request = request_form("https://api"), Request(method="GET", path="/")
    first_credential, second_credential = Credential(authorization="Bearer one"), Credential(authorization="Bearer two")
    first = form.headers(request, client="c", credential=first_credential)
    assert form.headers(request, client="c", credential=first_credential) is first
    assert "Authorization: Bearer one" in headers(form, request, first_credential)
    assert "Authorization: Bearer two" in headers(form, request, second_credential)


@pytest.mark.parametrize("end", ["\r", "\n", "\0"])
def test_header_with_a_line_end_is_an_error(end: str) -> None:
    form = request_form("https://api", impersonation=(("Impersonate-User", f"jane{end}Impersonate-Group: admins"),))
    with pytest.raises(ValueError, match="Impersonate-User"):
        headers(form, Request(method="GET", path="/"))


AGENTS = UserAgents(
    program="kube-controller-manager",
    version="v1.36.2+kcm.0.1.0",
    platform="linux/amd64",
    commit="kcm-0.1.0",
    programs={"hollow-kubelet": ("kubelet", ""), "hollow-scheduler": ("kube-scheduler", "scheduler")},
)
REST = "/v1.36.2+kcm.0.1.0 (linux/amd64) kubernetes/kcm-0.1.0"


@pytest.mark.parametrize(
    ("client", "header"),
    [
        ("replicaset-controller", f"kube-controller-manager{REST}/replicaset-controller"),
        ("", f"kube-controller-manager{REST}"),
        ("evil\r\nX: y", f"kube-controller-manager{REST}/evil??X: y"),
        ("naïve", f"kube-controller-manager{REST}/na?ve"),
        ("hollow-kubelet", f"kubelet{REST}"),
        ("hollow-scheduler", f"kube-scheduler{REST}/scheduler"),
    ],
)
def test_header_is_client_gos_with_the_clients_name_as_suffix(client: str, header: str) -> None:
    assert AGENTS.header(client) == header


@pytest.mark.parametrize("client", ["replicaset-controller", "system:serviceaccount:kube-system:replicaset-controller"])
def test_field_manager_of_every_client_is_the_program(client: str) -> None:
    assert agent_prefix(AGENTS.header(client)) == "kube-controller-manager"


@pytest.mark.parametrize("name", ["my-operator", "website_controller.v2", "x" * 128])
def test_program_name_is_accepted_if_it_can_be_a_field_manager(name: str) -> None:
    assert program_or_error(name) == name


@pytest.mark.parametrize("name", ["", "my operator", "a/b", "naïve", "a\n", "x" * 129])
def test_invalid_program_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="program is at most 128"):
        program_or_error(name)
