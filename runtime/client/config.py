"""Settings of a client: address and TLS of an API server, and credentials."""

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
    """Certificates or a key, inline or in a file."""

    # File and field that named it, for errors.
    origin: str
    # "" if data is given.
    path: str = ""
    data: bytes = field(default=b"", repr=False)

    def read(self) -> bytes:
        """Return the content. Raises ConfigError if the file cannot be read or is empty."""
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
    """Credentials of a client, valid for a time."""

    # Value of the header; "" for none.
    authorization: str = field(default="", repr=False)
    # PEM, both or neither.
    certificate: bytes = b""
    key: bytes = field(default=b"", repr=False)
    # Seconds for which the credential is used without a new one.
    lifetime: float = math.inf


class CredentialSource(Protocol):
    """Source of credentials, such as a file or a program."""

    def load(self) -> Credential:
        """Return the current credential. Blocks: reads a file or runs a program. Raises ConfigError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """All settings of a client."""

    # URL without a trailing slash, possibly with a path.
    server: str
    # Source of the settings, for logs.
    origin: str
    credentials: CredentialSource
    # None for the system's authorities.
    ca: Pem | None = None
    # Both or neither.
    certificate: Pem | None = None
    key: Pem | None = None
    verify: bool = True
    # Name that the server's certificate must have, if not the URL's host.
    tls_server_name: str = ""
    # URL; "" for none.
    proxy: str = field(default="", repr=False)
    # Request headers, which may repeat.
    impersonation: tuple[tuple[str, str], ...] = ()


def with_fixed_authority(config: ClientConfig) -> ClientConfig:
    """Return a copy that contains the present CA certificates, instead of the file that they are in.

    Raises ConfigError.
    """
    if config.ca is None or not config.ca.path:
        return config
    return replace(config, ca=Pem(origin=config.ca.origin, data=config.ca.read()))
