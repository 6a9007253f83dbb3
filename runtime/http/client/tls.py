"""TLS settings of new connections."""

from __future__ import annotations

import ssl

import pycurl
from msgspec import Struct

from kcm.protocols.reprs import repr_without


class TlsMaterial(Struct, frozen=True, kw_only=True):
    """Certificates and key for new connections, in PEM; b"" without them."""

    # Whether to verify the server's certificate.
    verify: bool
    # The authorities to trust; b"" for those of the system.
    authority: bytes = b""
    certificate: bytes = b""
    key: bytes = b""

    def __repr__(self) -> str:
        return repr_without(self, "key")


def set_tls(curl: pycurl.Curl, tls: TlsMaterial, *, proxied: bool) -> None:
    """Set the same options for the server and, if there is one, for the proxy, as Go does."""
    _set_side(curl, tls, "")
    if proxied:
        _set_side(curl, tls, "PROXY_")


def _set_side(curl: pycurl.Curl, tls: TlsMaterial, prefix: str) -> None:
    """Set the options of one side. prefix: of the names of libcurl's options; "" for the server."""

    def option(name: str) -> int:
        found: int = getattr(pycurl, prefix + name)
        return found

    curl.setopt(option("SSLVERSION"), pycurl.SSLVERSION_TLSv1_2)
    curl.setopt(option("SSL_VERIFYPEER"), tls.verify)
    curl.setopt(option("SSL_VERIFYHOST"), 2 if tls.verify else 0)
    # Otherwise libcurl also trusts a directory of authorities that it has found by itself.
    curl.unsetopt(option("CAPATH"))
    curl.unsetopt(option("CAINFO"))
    if tls.authority:
        curl.setopt(option("CAINFO_BLOB"), tls.authority)
    else:
        found = ssl.get_default_verify_paths()
        if found.cafile:
            curl.setopt(option("CAINFO"), found.cafile)
        if found.capath:
            curl.setopt(option("CAPATH"), found.capath)
    if tls.certificate:
        curl.setopt(option("SSLCERT_BLOB"), tls.certificate)
        curl.setopt(option("SSLKEY_BLOB"), tls.key)
