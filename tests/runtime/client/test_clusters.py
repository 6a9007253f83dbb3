from collections.abc import Callable
from typing import Any

import pytest

from kcm.runtime.client.api import Request, Response
from kcm.runtime.client.clusters import ClusterTransports


class RecordingTransport:
    def __init__(self, trouble: str | None = None) -> None:
        self.trouble = trouble
        self.requests: list[Request] = []

    def send(self, request: Request, *, client: str, on_response: Callable[[Response], None]) -> None:
        self.requests.append(request)

    def watch(self, request: Request, **_: Any) -> Any:
        self.requests.append(request)


def ignore(_: object) -> None: ...


def test_request_goes_to_its_cluster_under_the_path_of_the_server() -> None:
    hub, edge = RecordingTransport(), RecordingTransport()
    both = ClusterTransports({"hub": hub, "edge": edge})
    both.send(Request(method="GET", path="/clusters/edge/api/v1/pods"), client="c", on_response=ignore)
    both.watch(Request(method="GET", path="/clusters/hub/version"), client="c", on_lines=ignore, on_end=ignore)
    assert [request.path for request in edge.requests] == ["/api/v1/pods"]
    assert [request.path for request in hub.requests] == ["/version"]


def test_trouble_of_a_transport_names_its_cluster() -> None:
    both = ClusterTransports({"hub": RecordingTransport(), "edge": RecordingTransport("its thread ended")})
    assert both.trouble == "edge: its thread ended"
    assert ClusterTransports({"hub": RecordingTransport()}).trouble is None


def test_path_without_a_known_cluster_is_an_error() -> None:
    with pytest.raises(KeyError):
        ClusterTransports({"hub": RecordingTransport()}).send(
            Request(method="GET", path="/clusters/moon/version"), client="c", on_response=ignore
        )
