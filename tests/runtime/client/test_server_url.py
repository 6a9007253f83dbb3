from __future__ import annotations

import pytest

from kcm.runtime.client.config import ConfigError
from kcm.runtime.client.server_url import proxy_from_environment, proxy_url, server_url


@pytest.mark.parametrize(
    ("text", "tls", "url"),
    [
        ("https://10.0.0.1:6443", False, "https://10.0.0.1:6443"),
        ("https://10.0.0.1:6443/", False, "https://10.0.0.1:6443"),
        ("https://host/k8s/clusters/c-1/", False, "https://host/k8s/clusters/c-1"),
        ("http://localhost:8080", True, "http://localhost:8080"),
        ("localhost:8080", False, "http://localhost:8080"),
        ("10.0.0.1:6443", True, "https://10.0.0.1:6443"),
        ("https://[fd00::1]:6443", False, "https://[fd00::1]:6443"),
    ],
)
def test_a_server_is_a_url_or_a_host_and_port(text: str, tls: bool, url: str) -> None:
    assert server_url(text, origin="--master", tls=tls) == url


@pytest.mark.parametrize(
    "text",
    [
        "ftp://host",
        "unix:///run/api.sock",
        "https://",
        "https://host:port",
        "https://host:99999",
        "https://host:0",
        "https://[fd00::1",
        "https://user:secret@host",
        "https://user:secret@host:port",
        "ftp://user:secret@host",
        "https://host?a=b",
        "https://host#top",
        "https://ho st",
        "https://host\n",
    ],
)
def test_invalid_server_is_reported_with_its_origin(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^--master: ") as error:
        server_url(text, origin="--master", tls=False)
    assert "\n" not in str(error.value)
    assert "secret" not in str(error.value)


def test_unsupported_proxy_scheme_is_an_error() -> None:
    assert proxy_url("http://user:pw@proxy:3128", origin="x") == "http://user:pw@proxy:3128"
    with pytest.raises(ConfigError, match="a socks5 proxy is not supported"):
        proxy_url("socks5://proxy:1080", origin="x")


@pytest.mark.parametrize(
    ("server", "environ", "proxy"),
    [
        ("https://api.example.com", {}, ""),
        ("https://api.example.com", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ("https://api.example.com", {"https_proxy": "http://p:1"}, "http://p:1"),
        ("https://api.example.com", {"HTTP_PROXY": "http://p:1"}, ""),
        ("http://api.example.com", {"HTTP_PROXY": "http://p:1", "HTTPS_PROXY": "http://q:1"}, "http://p:1"),
        ("https://api.example.com", {"HTTPS_PROXY": "p:1"}, "http://p:1"),
        ("https://127.0.0.1:6443", {"HTTPS_PROXY": "http://p:1"}, ""),
        ("https://localhost:6443", {"HTTPS_PROXY": "http://p:1"}, ""),
        ("https://[::1]:6443", {"HTTPS_PROXY": "http://p:1"}, ""),
    ],
)
def test_environments_proxy_depends_on_the_scheme_and_excludes_loopback(
    server: str, environ: dict[str, str], proxy: str
) -> None:
    assert proxy_from_environment(server, environ) == proxy


@pytest.mark.parametrize(
    ("no_proxy", "excluded"),
    [
        ("*", True),
        ("example.com", True),
        ("api.example.com", True),
        (".example.com", True),
        ("*.example.com", True),
        ("ample.com", False),
        (".api.example.com", False),
        ("other.com, Example.COM", True),
        ("api.example.com:6443", True),
        ("api.example.com:443", False),
        ("", False),
        (",", False),
    ],
)
def test_no_proxy_matches_a_name_and_its_subdomains(no_proxy: str, excluded: bool) -> None:
    environ = {"HTTPS_PROXY": "http://p:1", "NO_PROXY": no_proxy}
    assert proxy_from_environment("https://api.example.com:6443", environ) == ("" if excluded else "http://p:1")


@pytest.mark.parametrize(
    ("server", "no_proxy", "excluded"),
    [
        ("https://10.96.0.1:443", "10.0.0.0/8", True),
        ("https://10.96.0.1:443", "10.96.0.1", True),
        ("https://10.96.0.1:443", "10.96.0.1:443", True),
        ("https://10.96.0.1:443", "10.96.0.1:80", False),
        ("https://10.96.0.1:443", "192.168.0.0/16", False),
        ("https://[fd00::1]:443", "fd00::/8", True),
        ("https://[fd00::1]:443", "fd00::1", True),
        ("https://[fd00::1]:443", "[fd00::1]:443", True),
    ],
)
def test_no_proxy_matches_addresses_and_networks(server: str, no_proxy: str, excluded: bool) -> None:
    environ = {"https_proxy": "http://p:1", "no_proxy": no_proxy}
    assert proxy_from_environment(server, environ) == ("" if excluded else "http://p:1")
