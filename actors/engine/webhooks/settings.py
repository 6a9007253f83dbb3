"""Settings of the webhook server of a program: its addresses, the Secret of its certificates, and lifetimes."""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from kcm.protocols.addresses import is_address
from kcm.protocols.arguments import check_number, check_text
from kcm.protocols.objects import Key, Object, make_key, split_key
from kcm.runtime.x509.key_rings import CertificateLives

PORT = 9443  # as controller-runtime's
SERVICE_PORT = 443
_LABEL = "[a-z0-9]([a-z0-9-]*[a-z0-9])?"
_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_URL = re.compile(
    r"https://(?P<host>\[[0-9A-Fa-f:.]+\]|[^/:?#@\[\]\s]+)(:(?P<port>[0-9]{1,5}))?(?P<path>(/[^/?#\s]+)*)/?"
)


class WebhookServing(Struct, frozen=True, kw_only=True):
    """Addresses and Secret of the webhook server of a program.

    name: name of the WebhookConfigurations; also the default name of the Service and the Secret, with "-webhook".
    namespace: of the Secret and the Service, usually of the program's pods.
    bind_address, port: where this process listens; port 0 selects a free one.
    service: "NAME", "NAMESPACE/NAME", and ":PORT" after it if it is not 443: the Service of the program's pods.
    url: "https://HOST:PORT" instead of a Service, for a program outside the cluster.
    secret: "NAME" or "NAMESPACE/NAME": the Secret with the CA and the serving certificate, which all replicas share.
    lives: lifetimes of the certificates.
    """

    name: str
    namespace: str = "default"
    bind_address: str = "0.0.0.0"
    port: int = PORT
    service: str = ""
    url: str = ""
    secret: str = ""
    lives: CertificateLives = CertificateLives()

    def __post_init__(self) -> None:
        """Check the values. Raises TypeError and ValueError."""
        for what, text in (("name", self.name), ("namespace", self.namespace)):
            check_text(f"{what} of WebhookServing", text)
            if not _NAME.fullmatch(text) or len(text) > 200:
                raise ValueError(f"{what} of WebhookServing is a name as of an object, not {text!r:.80}")
        check_text("bind_address of WebhookServing", self.bind_address)
        if not is_address(self.bind_address):
            raise ValueError(f"bind_address of WebhookServing is an IP address, not {self.bind_address!r:.80}")
        check_number("port of WebhookServing", self.port, least=0, whole=True)
        if self.port > 65535:
            raise ValueError(f"port of WebhookServing is at most 65535, not {self.port}")
        for what, text in (("service", self.service), ("secret", self.secret)):
            check_text(f"{what} of WebhookServing", text, may_be_empty=True)
            rest, _, port = text.partition(":") if what == "service" else (text, "", "")
            parts = rest.split("/")
            wrong = len(parts) > 2 or not all(map(_NAME.fullmatch, parts)) or (port and not _is_port(port))
            if text and wrong:
                raise ValueError(f"{what} of WebhookServing is a NAME or NAMESPACE/NAME, not {text!r:.80}")
        check_text("url of WebhookServing", self.url, may_be_empty=True)
        if self.url:
            if self.service:
                raise ValueError("WebhookServing has a url or a service, not both")
            found = _URL.fullmatch(self.url)
            if found is None or (found["port"] and not _is_port(found["port"])):
                raise ValueError(f"url of WebhookServing is like https://host:9443, not {self.url!r:.80}")

    @property
    def secret_key(self) -> Key:
        """Return the key of the Secret: "namespace/name"."""
        namespace, name = split_key(self.secret or f"{self.name}-webhook")
        return make_key(namespace or self.namespace, name)

    @property
    def server_names(self) -> tuple[str, ...]:
        """Return the names and IP addresses by which the API server verifies the serving certificate."""
        if self.url:
            found = _URL.fullmatch(self.url)
            return (found["host"].strip("[]"),) if found else ()
        namespace, name, _ = self._service()
        return (f"{name}.{namespace}.svc", f"{name}.{namespace}.svc.cluster.local", f"{name}.{namespace}")

    def client_config(self, path: str, bundle: str = "") -> Object:
        """Return the WebhookClientConfig of a path.

        bundle: the CAs in PEM and base64; "" to leave caBundle out.
        """
        authority: Object = {"caBundle": bundle} if bundle else {}
        if self.url:
            return {"url": f"{self.url.rstrip('/')}{path}", **authority}
        namespace, name, port = self._service()
        service: dict[str, Any] = {"namespace": namespace, "name": name, "path": path, "port": port}
        return {"service": service, **authority}

    def _service(self) -> tuple[str, str, int]:
        """Return the namespace, name and port of the Service."""
        where, _, port = (self.service or f"{self.name}-webhook").partition(":")
        namespace, name = split_key(where)
        return namespace or self.namespace, name, int(port or SERVICE_PORT)


def _is_port(text: str) -> bool:
    return text.isdecimal() and 0 < int(text) <= 65535
