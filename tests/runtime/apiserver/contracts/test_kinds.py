"""Responses to the objects in `kinds/tables` are those of kube-apiserver, except for the cases in differences.txt.

A case that no longer differs must be removed from the list. Remove a case to see how it differs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kcm.protocols.admission_plugins import (
    POD_GROUP_PROTECTION,
    STORAGE_OBJECT_IN_USE_PROTECTION,
    WITHOUT_CONTROLLERS,
)
from kcm.protocols.objects import Object
from kcm.runtime.apiserver.kinds.built_in import BUILT_IN
from kcm.runtime.apiserver.kinds.off_by_default import OFF_BY_DEFAULT
from tests.runtime.apiserver.conftest import Api
from tests.runtime.apiserver.contracts import requests
from tests.runtime.apiserver.contracts.kinds import play
from tests.runtime.apiserver.contracts.kinds.tables import TABLES
from tests.runtime.apiserver.contracts.requests import Exchange

ENABLED = ("resource.k8s.io", "internal.apiserver.k8s.io", "storagemigration.k8s.io", "scheduling.k8s.io")
SERVED = (*BUILT_IN, *(definition for definition in OFF_BY_DEFAULT if definition.group in ENABLED))
PLUGINS = WITHOUT_CONTROLLERS | {STORAGE_OBJECT_IN_USE_PROTECTION, POD_GROUP_PROTECTION}
KINDS = [(table, kind) for table, kinds in TABLES.items() for kind in kinds]
DIFFERENCES = frozenset(
    line for line in (Path(play.__file__).with_name("differences.txt")).read_text().splitlines() if line
)


def recorded(table: str, kind: str) -> Object:
    answers: Object = json.loads((play.RESPONSES / f"{table}.json").read_text())[kind]
    return answers


def compared(api: Api, table: str, kind: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield the case, our response and that of kube-apiserver."""
    play.prepare(api.exchange)
    ours = play.play(TABLES[table][kind], api.exchange)
    for case, theirs in recorded(table, kind).items():
        yield case, ours[case], theirs


@pytest.mark.parametrize("table, kind", KINDS, ids=[kind for _, kind in KINDS])
def test_embedded_server_responds_as_kube_apiserver(make_api: Callable[[], Api], table: str, kind: str) -> None:
    for case, ours, theirs in compared(make_api(plugins=PLUGINS, resources=SERVED), table, kind):
        if f"{table} | {kind} | {case}" not in DIFFERENCES:
            assert ours == theirs, case


@pytest.mark.slow
@pytest.mark.parametrize("table, kind", KINDS, ids=[kind for _, kind in KINDS])
def test_case_without_difference_is_not_listed(make_api: Callable[[], Api], table: str, kind: str) -> None:
    api = make_api(plugins=PLUGINS, resources=SERVED)
    same = [case for case, ours, theirs in compared(api, table, kind) if ours == theirs]
    assert [case for case in same if f"{table} | {kind} | {case}" in DIFFERENCES] == []


def test_every_listed_difference_is_of_a_case() -> None:
    cases = {f"{table} | {kind} | {case}" for table, kind in KINDS for case in recorded(table, kind)}
    assert cases >= DIFFERENCES


@pytest.fixture(scope="module")
def real_send(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exchange]:
    from tests.e2e.kubectl import Api as RealApi
    from tests.e2e.real_server import assets_or_skip, real_server

    assets = assets_or_skip()
    with real_server(tmp_path_factory.mktemp("real"), assets, *play.FLAGS) as server:
        reached = RealApi(server.kubeconfig)
        send = requests.real_exchange(reached.url, reached.token)
        play.prepare(send)
        yield send


@pytest.mark.cluster
@pytest.mark.parametrize("table, kind", KINDS, ids=[kind for _, kind in KINDS])
def test_recorded_responses_are_those_of_kube_apiserver(real_send: Exchange, table: str, kind: str) -> None:
    assert play.play(TABLES[table][kind], real_send) == recorded(table, kind)
