"""TLS as a handle of libcurl's has it."""

from __future__ import annotations

import ssl

import pycurl

from kcm.runtime.client.tls import TlsMaterial


def set_tls(curl: pycurl.Curl, tls: TlsMaterial, *, proxied: bool) -> None:
    """The same towards a proxy, as Go has it."""
    _set_side(curl, tls, "")
    if proxied:
        _set_side(curl, tls, "PROXY_")


def _set_side(curl: pycurl.Curl, tls: TlsMaterial, prefix: str) -> None:
    """prefix: of the names of libcurl's options; "" for those of the server's side."""

    def option(name: str) -> int:
        found: int = getattr(pycurl, prefix + name)
        return found

    curl.setopt(option("SSLVERSION"), pycurl.SSLVERSION_TLSv1_2)
    curl.setopt(option("SSL_VERIFYPEER"), tls.verify)
    curl.setopt(option("SSL_VERIFYHOST"), 2 if tls.verify else 0)
    # libcurl trusts a directory of authorities that it found by itself, in addition to what it is given.
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
