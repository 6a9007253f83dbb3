"""TLS of the manager's pages: one context for the listener, with certificates and authorities from files.

At each handshake changed files are loaded, so that a new certificate is used for the next connection, and the pair is
selected by the server name that the client sends (SNI). Open connections keep their certificate.
Source: kubernetes v1.36 apiserver/pkg/server (secure_serving.go, dynamiccertificates).
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from msgspec import Struct

from kcm.protocols.addresses import is_address
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.serving.certificates import (
    PairInDirectory,
    PairInFiles,
    PairInMemory,
    ServingPair,
    Stamp,
    file_stamp,
    read_file,
)
from kcm.runtime.serving.tls_names import MIN_VERSIONS, TlsError, offer_curves, offer_suites

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


class NamedPair(Struct, frozen=True, kw_only=True):
    """Certificate for certain server names (--tls-sni-cert-key)."""

    certificate: str
    key: str
    # "*." matches one label; empty for the names in the certificate.
    names: tuple[str, ...] = ()


class TlsSettings(Struct, frozen=True, kw_only=True):
    """TLS settings from the command line."""

    # PEM files. If both are "", a self-signed pair is used: in the directory, or in memory if that is "" too.
    certificate: str = ""
    key: str = ""
    directory: str = ""
    named: tuple[NamedPair, ...] = ()
    min_version: str = ""
    cipher_suites: tuple[str, ...] = ()
    curves: tuple[int, ...] = ()
    # Files with the authorities of clients, and of proxies, which name their clients; "" for none.
    clients: str = ""
    proxies: str = ""


Authorities = tuple[x509.Certificate, ...]
Published = tuple[str, str]  # PEM bundles of the authorities of clients and of proxies; "" for none
_Sources = tuple[list[Stamp | None], Published]  # stamps of files, and what the cluster publishes


class _Loaded(Struct, frozen=True):
    """Content of the sources. default: for clients that send no or an unknown server name."""

    sources: _Sources
    default: ssl.SSLContext
    by_name: dict[str, ssl.SSLContext]
    clients: Authorities
    proxies: Authorities


class ServingTls:
    """TLS from files. Used on one thread. context: for the listener."""

    def __init__(
        self,
        settings: TlsSettings,
        *,
        clock: Clock,
        log: FilteringBoundLogger,
        published: Callable[[], Published] | None = None,
    ) -> None:
        """Load the files. Raises TlsError.

        published: returns the authorities that the cluster publishes now, which are used where there is no file.
        """
        self._settings, self._clock, self._log, self._published = settings, clock, log, published
        self._pair: ServingPair
        if settings.certificate:
            self._pair = PairInFiles(settings.certificate, settings.key)
        elif settings.directory:
            self._pair = PairInDirectory(settings.directory, now=clock.now)
        else:
            self._pair = PairInMemory(now=clock.now)
            log.info("Generated self-signed cert in-memory", v=1, plain=True)
        self._named = [(named, PairInFiles(named.certificate, named.key)) for named in settings.named]
        self._loaded = self._load(self._sources())
        self._refused: _Sources | None = None  # unusable sources, which are not loaded again
        self._logged = ""  # the last error, so that it is not logged at each handshake
        self.context = self._new_context(self._loaded.clients, self._loaded.proxies)
        self._pair.load(self.context)
        self.context.sni_callback = self._choose

    def clients(self) -> Authorities:
        """Return the current authorities of clients."""
        self._refresh()
        return self._loaded.clients

    def proxies(self) -> Authorities:
        self._refresh()
        return self._loaded.proxies

    def _refresh(self) -> None:
        """Load changed sources. If they are unusable, log that and keep the previous content."""
        try:
            sources = self._sources()
            if sources in (self._loaded.sources, self._refused):
                return
            self._refused = sources
            self._loaded = self._load(sources)
        except TlsError as error:
            if str(error) != self._logged:
                self._logged = str(error)
                self._log.warning("TLS files not reloaded", error=self._logged)
            return
        self._refused, self._logged = None, ""
        self._log.info("TLS files reloaded")

    def _choose(self, connection: ssl.SSLObject, name: str | None, _context: ssl.SSLContext) -> None:
        self._refresh()
        connection.context = chosen(self._loaded.by_name, name) or self._loaded.default

    def _sources(self) -> _Sources:
        settings = self._settings
        pairs: list[Stamp | None] = [pair.stamp() for pair in (self._pair, *(pair for _, pair in self._named))]
        stamps = pairs + [file_stamp(Path(path)) for path in (settings.clients, settings.proxies) if path]
        clients, proxies = ("", "") if self._published is None else self._published()
        return stamps, ("" if settings.clients else clients, "" if settings.proxies else proxies)

    def _load(self, sources: _Sources) -> _Loaded:
        published = sources[1]
        clients = _authorities(self._settings.clients) or _published_authorities(published[0])
        proxies = _authorities(self._settings.proxies) or _published_authorities(published[1])
        default, _ = self._context_of(self._pair, clients, proxies)
        explicit: dict[str, ssl.SSLContext] = {}
        own: dict[str, ssl.SSLContext] = {}
        for named, pair in self._named:  # the first pair with a name is used for it
            for name in filter(is_address, named.names):
                raise TlsError(f"--tls-sni-cert-key: {name} is an address, which no client can ask for by SNI")
            context, certificate = self._context_of(pair, clients, proxies)
            names, found = (named.names, explicit) if named.names else (_names(certificate), own)
            for name in names:
                found.setdefault(name.lower().rstrip("."), context)
        return _Loaded(sources, default, {**own, **explicit}, clients, proxies)

    def _context_of(
        self, pair: ServingPair, clients: Authorities, proxies: Authorities
    ) -> tuple[ssl.SSLContext, x509.Certificate]:
        context = self._new_context(clients, proxies)
        certificate = pair.load(context)
        if certificate.not_valid_after_utc <= datetime.fromtimestamp(self._clock.now(), tz=UTC):
            self._log.warning(
                "serving certificate has expired",
                subject=certificate.subject.rfc4514_string(),
                end=certificate.not_valid_after_utc.isoformat(),
            )
        return context, certificate

    def _new_context(self, clients: Authorities, proxies: Authorities) -> ssl.SSLContext:
        settings = self._settings
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = MIN_VERSIONS[settings.min_version]
        context.set_alpn_protocols(["http/1.1"])
        if settings.cipher_suites:
            offer_suites(context, settings.cipher_suites)
        if settings.curves:
            offer_curves(context, settings.curves)
        if clients or proxies or self._published is not None:
            # Required from the start if authorities may appear later: the mode of a connection is the listener's.
            context.verify_mode = ssl.CERT_OPTIONAL
            # An intermediate authority may be trusted without its root, as in Go.
            context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
            # A resumed session is not verified again, so a removed authority would still be trusted.
            context.options |= ssl.OP_NO_TICKET
            context.num_tickets = 0
            pems = [authority.public_bytes(Encoding.PEM).decode() for authority in {*clients, *proxies}]
            if pems:
                context.load_verify_locations(cadata="".join(pems))
        return context


def chosen(by_name: dict[str, ssl.SSLContext], name: str | None) -> ssl.SSLContext | None:
    """Return the context for a server name: of an exact match, otherwise of a match of "*" with its first label."""
    if not name or not by_name:
        return None
    exact = name.lower().rstrip(".")
    return by_name.get(exact) or by_name.get(f"*.{exact.partition('.')[2]}")


def _names(certificate: x509.Certificate) -> list[str]:
    """Return the names in a certificate, without addresses, which SNI does not carry."""
    found = [str(name.value) for name in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    names = [name for name in found if not is_address(name)]
    try:
        more = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return names
    return names + more.get_values_for_type(x509.DNSName)


def _authorities(path: str) -> Authorities:
    """Load a file of authorities; "" for none. Raises TlsError."""
    if not path:
        return ()
    try:
        return tuple(x509.load_pem_x509_certificates(read_file(Path(path))))
    except ValueError as error:
        raise TlsError(f"{path}: no certificates in it: {error}") from error


def _published_authorities(bundle: str) -> Authorities:
    """Parse a bundle of authorities that the cluster publishes; "" for none. Raises TlsError."""
    if not bundle:
        return ()
    try:
        return tuple(x509.load_pem_x509_certificates(bundle.encode()))
    except ValueError as error:
        raise TlsError(f"ConfigMap kube-system/extension-apiserver-authentication: no certificates: {error}") from error
