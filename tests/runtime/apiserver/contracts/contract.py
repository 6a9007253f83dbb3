"""Contracts: scenarios that are played on the embedded API server and on kube-apiserver."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.runtime.apiserver.conftest import Api
from tests.runtime.apiserver.contracts import requests
from tests.runtime.apiserver.contracts.requests import NAMESPACE, Send
from tests.runtime.apiserver.webhooks import Hook, serving

RESPONSES = Path(__file__).with_name("responses")

Server = Any
"""What `play` of a contract sends to: a function, or a function with a webhook."""

Embedded = Callable[[type[Api], str], Server]
Real = Callable[[Path, Path], AbstractContextManager[Callable[[str], Server]]]


@dataclass(frozen=True, eq=False)
class Contract:
    """Scenarios that are played on both servers, with the recorded responses of kube-apiserver.

    name: also the name of the file of recorded responses
    scenarios: by name; each is a list of steps, or has them in `steps`
    play: plays a scenario on a server, and returns the responses without the parts that differ from run to run
    embedded: returns an embedded server for a scenario
    real: starts a kube-apiserver, from a working directory and the directory of the binaries; yields a function that
        prepares it for a scenario
    """

    name: str
    scenarios: Mapping[str, Any]
    play: Callable[[str, Any], Any]
    embedded: Embedded = field(kw_only=True)
    real: Real = field(kw_only=True)

    @property
    def file(self) -> Path:
        return RESPONSES / f"{self.name}.json"

    def recorded(self) -> dict[str, Any]:
        """Return the recorded responses of kube-apiserver by scenario."""
        responses: dict[str, Any] = json.loads(self.file.read_text())
        return responses

    def record(self, directory: Path, assets: Path) -> None:
        """Play all scenarios on a kube-apiserver and record its responses."""
        with self.real(directory, assets) as server_for:
            responses = {name: self.play(name, server_for(name)) for name in self.scenarios}
        self.file.write_text(json.dumps(responses, indent=1, sort_keys=True) + "\n")

    def steps(self, scenario: str) -> Sequence[Any]:
        found = self.scenarios[scenario]
        steps: Sequence[Any] = getattr(found, "steps", found)
        return steps


def embedded(**options: Any) -> Embedded:
    """Return a factory of embedded servers with the namespace of the scenarios. options: of `ApiServer`."""

    def make(make_api: type[Api], _scenario: str) -> Send:
        api = make_api(**options)
        api.create("namespaces", {"metadata": {"name": NAMESPACE}})
        return api.answer

    return make


@contextmanager
def real_sender(directory: Path, assets: Path, *flags: str, disabled: Sequence[str] | None = None) -> Iterator[Send]:
    """Start a kube-apiserver and yield a function that sends requests to it.

    flags: of kube-apiserver.
    disabled: admission plugins; None for those that need controllers.
    """
    from tests.e2e.kubectl import Api as RealApi
    from tests.e2e.real_server import NOT_ADMITTING, real_server

    disabled = NOT_ADMITTING if disabled is None else disabled
    with real_server(directory, assets, *flags, disabled=disabled) as server:
        reached = RealApi(server.kubeconfig)
        yield requests.real_sender(reached.url, reached.token)


def on_one_server(*flags: str, disabled: Sequence[str] | None = None) -> Real:
    """Return `real` of a contract whose scenarios need no preparation."""

    @contextmanager
    def real(directory: Path, assets: Path) -> Iterator[Callable[[str], Send]]:
        with real_sender(directory, assets, *flags, disabled=disabled) as send:
            yield lambda _scenario: send

    return real


def in_new_namespaces(*flags: str, disabled: Sequence[str] | None = None) -> Real:
    """Return `real` of a contract whose scenarios need a namespace of their own each."""

    @contextmanager
    def real(directory: Path, assets: Path) -> Iterator[Callable[[str], Send]]:
        with real_sender(directory, assets, *flags, disabled=disabled) as send:
            yield lambda _scenario: requests.in_a_namespace_of_its_own(send)

    return real


@contextmanager
def webhook_server(hook: Hook, directory: Path) -> Iterator[tuple[str, bytes]]:
    """Serve a webhook with keys in a subdirectory; yield its URL and the certificate of its authority."""
    keys = directory / "hook"
    keys.mkdir()
    with serving(hook, keys) as reached:
        yield reached
