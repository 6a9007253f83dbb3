"""Authority whose certificate and key are files, which may be replaced at any time.

Source: kubernetes v1.36 pkg/controller/certificates/signer/ca_provider.go, apiserver
pkg/server/dynamiccertificates/dynamic_serving_content.go. The files are read at every signature, and not watched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from kcm.runtime.x509.authority import Authority

NAME = "csr-controller"  # name of the files in errors, as upstream


class KeyFilesError(ValueError):
    """There is no usable certificate and key."""


class _Content(NamedTuple):
    certificate: bytes
    key: bytes


def read_file(path: str) -> bytes:
    """Read a file. Raises OSError."""
    return Path(path).read_bytes()


class KeyFiles:
    """Authority from files. Thread-safe.

    If the files cannot be read, or do not belong together, the previous pair stays in use: two files are not replaced
    in one step.
    """

    def __init__(
        self,
        certificate: str,
        key: str,
        *,
        log: FilteringBoundLogger | None = None,
        read: Callable[[str], bytes] = read_file,
    ) -> None:
        """Prepare the authority. certificate, key: paths. read: reads a file; raises OSError."""
        self._certificate, self._key = certificate, key
        self._log, self._read = log, read
        self._loaded: _Content | None = None  # the last pair that belonged together
        self._authority: tuple[_Content, Authority] | None = None
        self._complaint = ""

    def sign(self, request: bytes, usages: Sequence[str], seconds: float, now: float) -> bytes:
        """Return a certificate in PEM for a request in PEM; see Authority.sign. Raises ValueError."""
        return self.authority().sign(request, usages=usages, seconds=seconds, now=now)

    def authority(self) -> Authority:
        """Return the authority of the present files. Raises KeyFilesError, AuthorityError."""
        from kcm.runtime.x509.authority import authority_of  # heavy: cryptography

        content = self._content()
        if self._authority is None or self._authority[0] != content:
            self._authority = content, authority_of(*content, name=NAME)
        return self._authority[1]

    def _content(self) -> _Content:
        from kcm.runtime.x509.authority import AuthorityError, load_pair  # heavy: cryptography

        try:
            content = _Content(self._file(self._certificate), self._file(self._key))
            if content == self._loaded:
                return content
            if not all(content):
                raise KeyFilesError(f'missing content for serving cert "{NAME}"')
            load_pair(*content)
        except (KeyFilesError, AuthorityError) as err:
            return self._kept(str(err))
        if self._log is not None:
            self._log.info("Loaded a new cert/key pair", v=2, name=NAME, certificate=self._certificate)
        self._loaded, self._complaint = content, ""
        return content

    def _kept(self, why: str) -> _Content:
        """Return the previous pair. Raises KeyFilesError without one."""
        if self._loaded is None:
            raise KeyFilesError(f'error reading CA cert file "{self._certificate}": {why}')
        if why != self._complaint and self._log is not None:
            self._log.error("cert/key pair not reloaded, using the previous one", name=NAME, error=why)
        self._complaint = why
        return self._loaded

    def _file(self, path: str) -> bytes:
        try:
            return self._read(path)
        except OSError as err:
            raise KeyFilesError(f"open {path}: {(err.strerror or str(err)).lower()}") from err
