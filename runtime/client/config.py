"""How to reach an API server and with which credentials, from a kubeconfig, a pod's service account or --master."""

from __future__ import annotations

import math
from dataclasses import field, replace
from pathlib import Path
from typing import Protocol

from kcm.protocols.late_methods import dataclass


class ConfigError(Exception):
    """An error in the client configuration: one line that names the file and the field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pem:
    """Certificates or a key, given in place or in a file.

    origin: file and field that named it, for errors. path: "" when data is given; then it is read once.
    """

    origin: str
    path: str = ""
    data: bytes = field(default=b"", repr=False)

    def read(self) -> bytes:
        """Raises ConfigError when the file cannot be read or is empty."""
        data = self.data
        if self.path:
            try:
                data = Path(self.path).read_bytes()
            except OSError as err:
                raise ConfigError(f"{self.origin}: cannot read {self.path}: {err.strerror}") from err
        if not data.strip():
            raise ConfigError(f"{self.origin}: {self.path or 'the value'} is empty")
        return data


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """Credentials with which a client authenticates, for a while.

    authorization: value of the header; "" for none. certificate, key: PEM, both or neither. lifetime: seconds for
    which the source need not be asked again.
    """

    authorization: str = field(default="", repr=False)
    certificate: bytes = b""
    key: bytes = field(default=b"", repr=False)
    lifetime: float = math.inf


class CredentialSource(Protocol):
    """Where credentials come from."""

    def load(self) -> Credential:
        """The credential as it is now. Blocks: reads a file or runs a program. Raises ConfigError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """All settings of a client.

    server: URL without a trailing slash, possibly with a path. origin: where this comes from, for logs. ca: None for
    the system's. certificate and key: both or neither. tls_server_name: the name that the server's certificate must
    have, if not the URL's host. proxy: URL; "" for none. impersonation: request headers, which may repeat.
    """

    server: str
    origin: str
    credentials: CredentialSource
    ca: Pem | None = None
    certificate: Pem | None = None
    key: Pem | None = None
    verify: bool = True
    tls_server_name: str = ""
    proxy: str = field(default="", repr=False)
    impersonation: tuple[tuple[str, str], ...] = ()


def with_fixed_authority(config: ClientConfig) -> ClientConfig:
    """The same, whose authority is that of this moment, whatever becomes of its file. Raises ConfigError."""
    if config.ca is None or not config.ca.path:
        return config
    return replace(config, ca=Pem(origin=config.ca.origin, data=config.ca.read()))
