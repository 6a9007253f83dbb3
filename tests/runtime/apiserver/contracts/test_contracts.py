"""Contracts on the embedded API server, and verification of their recorded responses on kube-apiserver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from itertools import zip_longest
from typing import Any

import pytest

from tests.runtime.apiserver.conftest import Api
from tests.runtime.apiserver.contracts.catalog import CONTRACTS
from tests.runtime.apiserver.contracts.contract import Contract

PLAYED = [
    pytest.param(contract, scenario, id=f"{contract.name}: {scenario}")
    for contract in CONTRACTS
    for scenario in contract.scenarios
]


@cache
def recorded(contract: Contract) -> dict[str, Any]:
    return contract.recorded()


@pytest.mark.parametrize(("contract", "scenario"), PLAYED)
def test_embedded_server_responds_as_kube_apiserver(make_api: type[Api], contract: Contract, scenario: str) -> None:
    ours = contract.play(scenario, contract.embedded(make_api, scenario))
    theirs = recorded(contract)[scenario]
    pairs = zip_longest(responses_of(ours), responses_of(theirs))
    for number, ((our_answer, their_answer), step) in enumerate(zip(pairs, contract.steps(scenario), strict=True)):
        assert our_answer == their_answer, f"step {number}: {step[0]} {step[1]}"
    assert ours == theirs


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract.name)
def test_every_recorded_scenario_is_played(contract: Contract) -> None:
    assert recorded(contract).keys() == contract.scenarios.keys()


@pytest.fixture(scope="module")
def real_server_for(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Contract], Callable[[str], Any]]]:
    """Yield a function that returns, for a contract, the function that prepares its kube-apiserver for a scenario.

    The server runs until that of another contract is requested, since a contract has up to thirty scenarios. It is not
    a parameter of the fixture: pytest 9.2 sets up such a fixture again for each scenario.
    """
    from tests.e2e.real_server import assets_or_skip

    assets = assets_or_skip()
    running: tuple[Contract, Callable[[str], Any]] | None = None
    with ExitStack() as servers:

        def prepare(contract: Contract) -> Callable[[str], Any]:
            nonlocal running
            if running is None or running[0] is not contract:
                running = None
                servers.close()
                directory = tmp_path_factory.mktemp(contract.name)
                running = contract, servers.enter_context(contract.real(directory, assets))
            return running[1]

        yield prepare


@pytest.mark.cluster
@pytest.mark.timeout(180)  # the first scenario of a contract starts up to two servers
@pytest.mark.parametrize(("contract", "scenario"), PLAYED)
def test_recorded_responses_are_those_of_kube_apiserver(
    real_server_for: Callable[[Contract], Callable[[str], Any]], contract: Contract, scenario: str
) -> None:
    prepare = real_server_for(contract)
    assert contract.play(scenario, prepare(scenario)) == recorded(contract)[scenario]


def responses_of(played: Any) -> list[Any]:
    """Return the responses to the steps. A contract with webhooks has the requests to the webhook as well."""
    responses: list[Any] = played["answers"] if isinstance(played, dict) else played
    return responses
