"""Socket options and proxies; tests/runtime/client/transport covers the rest."""

from __future__ import annotations

import socket
import struct

from kcm.runtime.http.client import connections
from kcm.runtime.http.client.attempts import _prepare_socket


def test_socket_has_keepalive_and_discards_unsent_bytes_on_close() -> None:
    with socket.socket() as made:
        made.set_inheritable(True)
        assert _prepare_socket(made.fileno(), 0) == 0
        assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert struct.unpack("ii", made.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8)) == (1, 0)
        if hasattr(socket, "TCP_KEEPIDLE"):
            times = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
            assert [made.getsockopt(socket.IPPROTO_TCP, time) for time in times] == [30, 15, 4]
        assert not made.get_inheritable()


def test_proxy_without_port_has_the_default_of_its_scheme() -> None:
    assert connections._with_port("http://user:pw@proxy") == "http://user:pw@proxy:80"
    assert connections._with_port("https://proxy/") == "https://proxy:443/"
    assert connections._with_port("http://[::1]:3128") == "http://[::1]:3128"
