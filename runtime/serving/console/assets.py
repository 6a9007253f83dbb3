"""Files of the console. They contain nothing about the cluster, so they are served without authentication."""

from __future__ import annotations

import hashlib
import zlib
from pathlib import Path

from msgspec import Struct

from kcm.runtime.serving.application import PageRequest, PageResponse

STATIC = Path(__file__).parent / "static"
SHELL = "index.html"
PREFIX = "/console/"
ASSETS = "/console/assets/"
IMMUTABLE = b"public, max-age=31536000, immutable"
REVALIDATED = b"no-cache"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
# No inline scripts or styles, nothing from other hosts, in no frame. Scripts cannot assign HTML either.
CONTENT_SECURITY_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types kcm-console",
    ]
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
HEADER_LINES = b"".join(f"{name}: {value}\r\n".encode() for name, value in HEADERS.items())


class Asset(Struct, frozen=True):
    """File as it is sent. compressed: the body in gzip, or None if that is not shorter."""

    body: bytes
    compressed: bytes | None
    content_type: str
    tag: str
    cache: bytes

    def response(self, request: PageRequest) -> PageResponse:
        """Return the file, or 304 if the client has it."""
        lines = HEADER_LINES + f'ETag: "{self.tag}"\r\nVary: Accept-Encoding\r\n'.encode()
        if f'"{self.tag}"' in request.header("If-None-Match"):
            return PageResponse(status=304, body=b"", content_type=self.content_type, lines=lines, cache=self.cache)
        body = self.body
        if self.compressed is not None and "gzip" in request.header("Accept-Encoding"):
            body, lines = self.compressed, lines + b"Content-Encoding: gzip\r\n"
        return PageResponse(body=body, content_type=self.content_type, lines=lines, cache=self.cache, is_encoded=True)


class Assets:
    """Files of the console by path, read when the first is requested.

    The page itself (SHELL) is returned for the address of every view, and names the other files below a path that
    contains a hash of all of them. So these never change, and browsers keep them.
    """

    def __init__(self, directory: Path = STATIC) -> None:
        self._directory = directory
        self._files: dict[str, Asset] = {}
        self._shell: Asset | None = None

    def find(self, path: str) -> Asset | None:
        """Return the file of a path; None if the path is not one of the console's files and views."""
        if not path.startswith(PREFIX) and path != PREFIX.rstrip("/"):
            return None
        if self._shell is None:
            self._read()
        if path.startswith(ASSETS):
            return self._files.get(path)
        return self._shell

    def _read(self) -> None:
        contents = {
            file.relative_to(self._directory).as_posix(): file.read_bytes()
            for file in sorted(self._directory.rglob("*"))
            if file.suffix in TYPES
        }
        digest = hashlib.sha256()
        for name, content in contents.items():
            digest.update(f"{name}\0{len(content)}\0".encode() + content)
        version = digest.hexdigest()[:16]
        shell = contents.pop(SHELL).replace(b"{{assets}}", f"{ASSETS}{version}".encode())
        self._files = {
            f"{ASSETS}{version}/{name}": _asset(name, content, IMMUTABLE) for name, content in contents.items()
        }
        self._shell = _asset(SHELL, shell, REVALIDATED)


def _asset(name: str, body: bytes, cache: bytes) -> Asset:
    compressed = zlib.compress(body, 9, wbits=31)
    return Asset(
        body=body,
        compressed=compressed if len(compressed) < len(body) else None,
        content_type=TYPES[Path(name).suffix],
        tag=hashlib.sha256(body).hexdigest()[:32],
        cache=cache,
    )
