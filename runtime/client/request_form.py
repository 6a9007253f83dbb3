"""URLs and headers of requests, as libcurl options."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote, urlsplit

from msgspec import Struct, field

from kcm.runtime.client.api import Request
from kcm.runtime.client.config import ClientConfig, Credential

PATH_SAFE = "/:@!$&'()*+,;=~"
# Most need no quoting, and quote() is slow to find that out.
IS_QUOTED_PATH = re.compile(r"[A-Za-z0-9_.\-~/:@!$&'()*+,;=]*").fullmatch
IS_QUOTED = re.compile(r"[A-Za-z0-9_.\-~]*").fullmatch


class RequestForm:
    """URLs and headers of requests to one server."""

    def __init__(self, config: ClientConfig, *, agents: UserAgents) -> None:
        url = urlsplit(config.server)
        self._config, self._agents = config, agents
        port = f":{url.port}" if url.port not in (None, 443 if url.scheme == "https" else 80) else ""
        self._host = _in_url(url.hostname or "") + port
        # libcurl takes the name that a certificate must have from the URL; CONNECT_TO has the host to connect to.
        named = _in_url(config.tls_server_name) + port if config.tls_server_name else self._host
        self._before = f"{url.scheme}://{named if url.scheme == 'https' else self._host}"  # prefix of every URL
        self._before += quote(url.path.rstrip("/"), safe=PATH_SAFE + "%")
        self._credential = Credential()  # the credential in the cached headers below
        self._headers: dict[tuple[str, str, str | None], list[bytes]] = {}

    def url(self, request: Request) -> str:
        """Return the URL of a request. Raises UnicodeEncodeError for text that UTF-8 cannot encode."""
        path, query = request.path, request.query
        url = self._before + (path if IS_QUOTED_PATH(path) else quote(path, safe=PATH_SAFE))
        if not query:
            return url
        return f"{url}?{'&'.join([f'{_quoted(name)}={_quoted(value)}' for name, value in query.items()])}"

    def headers(self, request: Request, *, client: str, credential: Credential) -> list[bytes]:
        """Return the headers of a request; the few variants are cached. Raises ValueError for a multiline value."""
        if credential is not self._credential:
            self._credential = credential
            self._headers.clear()
        content_type = None if request.method == "GET" else request.content_type if request.body else ""
        headers = self._headers.get((client, request.accept, content_type))
        if headers is None:
            headers = self._headers[client, request.accept, content_type] = [
                _line(name, value) for name, value in self._fields(client, request.accept, content_type, credential)
            ]
        return [*headers, _line("traceparent", request.traceparent)] if request.traceparent else headers

    def _fields(
        self, client: str, accept: str, content_type: str | None, credential: Credential
    ) -> list[tuple[str, str]]:
        """Return names and values of headers. content_type: None for a request without a body, "" for an empty body."""
        fields = [
            ("Host", self._host),
            *self._config.impersonation,
            ("User-Agent", self._agents.header(client)),
            ("Accept", accept),
            ("Accept-Encoding", "identity"),  # as kube-controller-manager: a cluster's network is faster than gzip
        ]
        if content_type is not None:
            # "Expect:" disables the header: otherwise libcurl waits for a 100 before it sends a large body.
            fields += [("Content-Type", content_type), ("Expect", "")]
        if credential.authorization:
            fields.append(("Authorization", credential.authorization))
        return fields


def _in_url(host: str) -> str:
    """Return a host name or an address in the syntax of URLs."""
    if ":" in host:
        return f"[{host}]"
    return host if host.isascii() else host.encode("idna").decode()


def _quoted(text: str) -> str:
    return text if IS_QUOTED(text) else quote(text, safe="")


def _line(name: str, value: str) -> bytes:
    line = f"{name}: {value}" if value else f"{name}:"
    if any(end in line for end in "\r\n\0"):
        raise ValueError(f"the header {name} contains a line break")
    return line.encode()


_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")  # RFC 9110
_LONGEST_PROGRAM = 128  # of a field manager. Source: apimachinery metav1 validation, FieldManagerMaxLength


def program_or_error(name: str) -> str:
    """Return the name of a program unchanged. Raises ValueError if it cannot be a field manager."""
    if not _TOKEN.fullmatch(name) or len(name) > _LONGEST_PROGRAM:
        raise ValueError(
            f"program is at most {_LONGEST_PROGRAM} letters, digits and -_.!#$%&'*+^`|~ (it names the field manager); "
            f"got {name!r}"
        )
    return name


class UserAgents(Struct, frozen=True, kw_only=True):
    """The User-Agent headers of one process."""

    # Program name: the text before the first slash.
    program: str
    version: str
    # In Go's words: linux/amd64.
    platform: str
    # Text at the position of client-go's git commit.
    commit: str
    # By client that acts as another program, such as kube-scheduler: the program's name and suffix.
    programs: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def header(self, client: str) -> str:
        """Return the header's value for a client, such as a controller's name.

        Invalid characters are replaced by "?".
        """
        program, suffix = self.programs.get(client, (self.program, client))
        text = f"{program}/{self.version} ({self.platform}) kubernetes/{self.commit}"
        text = f"{text}/{suffix}" if suffix else text
        return "".join(c if c.isascii() and c.isprintable() else "?" for c in text)
