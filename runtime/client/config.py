"""Settings of a client: address and TLS of an API server, and credentials."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from kcm.protocols.reprs import repr_without


class ConfigError(Exception):
    """An error in the client configuration: one line that names the file and the field."""


class Pem(Struct, frozen=True, kw_only=True):
    """Certificates or a key, inline or in a file."""

    # File and field that named it, for errors.
    origin: str
    # "" if data is given.
    path: str = ""
    data: bytes = b""

    def __repr__(self) -> str:
        return repr_without(self, "data")

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


class Credential(Struct, frozen=True, kw_only=True):
    """Credentials of a client, valid for a time."""

    # Value of the header; "" for none.
    authorization: str = ""
    # PEM, both or neither.
    certificate: bytes = b""
    key: bytes = b""
    # Seconds for which the credential is used without a new one.
    lifetime: float = math.inf

    def __repr__(self) -> str:
        return repr_without(self, "authorization", "key")


class CredentialSource(Protocol):
    """Source of credentials, such as a file or a program."""

    def load(self) -> Credential:
        """Return the current credential. Blocks: reads a file or runs a program. Raises ConfigError."""


class ClientConfig(Struct, frozen=True, kw_only=True):
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
    proxy: str = ""
    # Request headers, which may repeat.
    impersonation: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return repr_without(self, "proxy")


def with_fixed_authority(config: ClientConfig) -> ClientConfig:
    """Return a copy that contains the present CA certificates, instead of the file that they are in.

    Raises ConfigError.
    """
    if config.ca is None or not config.ca.path:
        return config
    return replace(config, ca=Pem(origin=config.ca.origin, data=config.ca.read()))
