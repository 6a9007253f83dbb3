"""A request as it goes on the wire: request line, headers, body."""

from __future__ import annotations

import re
from base64 import b64encode
from urllib.parse import quote, unquote, urlsplit

from yarl import URL

from runtime.client.api import Request
from runtime.client.config import ClientConfig, Credential
from runtime.client.user_agent import user_agent

PATH_SAFE = "/:@!$&'()*+,;=~"
# Most are as they should be already, and quote() takes its time to find that out.
IS_QUOTED_PATH = re.compile(r"[A-Za-z0-9_.\-~/:@!$&'()*+,;=]*").fullmatch
IS_QUOTED = re.compile(r"[A-Za-z0-9_.\-~]*").fullmatch


class RequestBytes:
    """Of requests to one server. user_agent_base: the user agent, but for the client's name."""

    def __init__(self, config: ClientConfig, *, user_agent_base: str) -> None:
        url = URL(config.server)
        self._config, self._user_agent_base = config, user_agent_base
        self._host = url.host_port_subcomponent or ""
        self._before = url.raw_path.rstrip("/")  # what every target begins with
        self._passed_on = bool(config.proxy) and url.scheme == "http"  # by the proxy, which reads it; TLS it tunnels
        if self._passed_on:
            self._before = str(url).rstrip("/")
        self._credential = Credential()  # the one that the headers below were made for
        self._headers: dict[tuple[str, str, str], bytes] = {}

    def of(self, request: Request, *, client: str, credential: Credential) -> bytes:
        """Raises UnicodeEncodeError on what cannot be said in UTF-8, ValueError on a header of more than a line."""
        body = request.body
        path, query = request.path, request.query
        target = self._before + (path if IS_QUOTED_PATH(path) else quote(path, safe=PATH_SAFE))
        if query:
            target += "?" + "&".join([f"{_quoted(name)}={_quoted(value)}" for name, value in query.items()])
        line = f"{request.method} {target or '/'} HTTP/1.1\r\n".encode()
        headers = self._headers_of(client, request.accept, request.content_type if body else "", credential)
        if not body and request.method == "GET":
            return b"%b%b\r\n" % (line, headers)
        return b"%b%bContent-Length: %d\r\n\r\n%b" % (line, headers, len(body), body)

    def _headers_of(self, client: str, accept: str, content_type: str, credential: Credential) -> bytes:
        """Kept: a client has a handful of them."""
        if credential is not self._credential:
            self._credential = credential
            self._headers.clear()
        headers = self._headers.get((client, accept, content_type))
        if headers is None:
            headers = self._headers[client, accept, content_type] = b"".join(
                _line(name, value) for name, value in self._fields(client, accept, content_type, credential)
            )
        return headers

    def _fields(self, client: str, accept: str, content_type: str, credential: Credential) -> list[tuple[str, str]]:
        fields = [
            ("Host", self._host),
            *self._config.impersonation,
            ("User-Agent", user_agent(self._user_agent_base, client)),
            ("Accept", accept),
            ("Accept-Encoding", "identity"),  # as the real one: a cluster's network is faster than gzip
        ]
        if content_type:
            fields.append(("Content-Type", content_type))
        if credential.authorization:
            fields.append(("Authorization", credential.authorization))
        if self._passed_on and (authorization := _basic_authorization(self._config.proxy)):
            fields.append(("Proxy-Authorization", authorization))
        return fields


def _quoted(text: str) -> str:
    return text if IS_QUOTED(text) else quote(text, safe="")


def _line(name: str, value: str) -> bytes:
    line = f"{name}: {value}"
    if any(end in line for end in "\r\n\0"):
        raise ValueError(f"the header {name} would be more than a line")
    return f"{line}\r\n".encode()


def _basic_authorization(proxy: str) -> str:
    """The header's value for the user that a proxy's URL names; "" if it names none."""
    parts = urlsplit(proxy)
    if parts.username is None:
        return ""
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return f"Basic {b64encode(pair.encode()).decode()}"
