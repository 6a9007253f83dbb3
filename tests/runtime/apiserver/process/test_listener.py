"""Serving certificate of a running server, and the limit of its connections."""

from __future__ import annotations

import socket
import time  # OpenSSL uses the system clock
from pathlib import Path

import pytest

from kcm.runtime.apiserver.process.certificates import ensure_certificates
from kcm.runtime.apiserver.process.failures import CannotServeError
from kcm.runtime.apiserver.process.listener import connection_limits, listen, load_serving_certificate, tls_context
from kcm.runtime.x509.certificates import LEAF_LIFE, RENEW_BEFORE
from tests.support.certificates import client_context, handshake


def test_renewed_certificate_is_used_for_new_connections(tmp_path: Path) -> None:
    begun = time.time() - (LEAF_LIFE - RENEW_BEFORE).total_seconds() + 60
    certificates = ensure_certificates(tmp_path, now=begun)
    tls, client = tls_context(certificates), client_context(trusts=certificates.authority.certificate)
    first = handshake(tls, client)[0].getpeercert(binary_form=True)
    load_serving_certificate(tls, ensure_certificates(tmp_path, now=time.time()))
    assert handshake(tls, client)[0].getpeercert(binary_form=True) == first
    load_serving_certificate(tls, ensure_certificates(tmp_path, now=time.time() + 120))
    assert handshake(tls, client)[0].getpeercert(binary_form=True) != first


@pytest.mark.parametrize("descriptors, most", [(65_536, 2048), (1024, 896), (256, 128), (100, 16)])
def test_some_descriptors_are_reserved(descriptors: int, most: int) -> None:
    assert connection_limits(descriptors).most == most


def test_previous_port_is_used_if_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with listen(0, preferred=port) as other:
            assert other.getsockname()[1] != port
        with pytest.raises(CannotServeError, match=r"Address already in use \(--embedded-port=0 takes a free one\)"):
            listen(port, preferred=0)
    with listen(0, preferred=port) as again:
        assert again.getsockname()[1] == port
