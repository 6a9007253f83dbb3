"""A system on two clusters over HTTP, one of which is cut off: no packet arrives, and no connection is closed."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from structlog.typing import FilteringBoundLogger

from kcm.actors.app.api_server import ApiServer
from kcm.actors.app.connection import api_transport
from kcm.actors.app.system import ControllerSystem
from kcm.actors.engine.elector import Election
from kcm.protocols.resources import CONFIGMAPS
from tests.e2e.kubectl import Api
from tests.e2e.partition_proxy import PartitionProxy
from tests.e2e.programs import until
from tests.support.markers import is_marked, marker

PATH = "/api/v1/namespaces/default/configmaps"


def through(proxy: PartitionProxy, kubeconfig: Path, file: Path) -> Path:
    """Write a kubeconfig whose server is behind the proxy."""
    config = yaml.safe_load(kubeconfig.read_text())
    cluster = config["clusters"][0]["cluster"]
    cluster["server"] = urlsplit(cluster["server"])._replace(netloc=f"127.0.0.1:{proxy.port}").geturl()
    file.write_text(yaml.safe_dump(config))
    return file


@pytest.mark.slow
def test_controller_of_a_cluster_works_while_the_other_is_cut_off(tmp_path: Path, log: FilteringBoundLogger) -> None:
    lease = Election(identity="one", namespace="default", name="markers")
    with ExitStack() as closing:
        servers = {name: closing.enter_context(ApiServer()) for name in ("hub", "edge")}
        apis = {name: Api(server.kubeconfig) for name, server in servers.items()}
        port = urlsplit(apis["edge"].url).port
        assert port is not None
        proxy = closing.enter_context(PartitionProxy.serving(port))
        kubeconfigs = {
            "hub": servers["hub"].kubeconfig,
            "edge": through(proxy, servers["edge"].kubeconfig, tmp_path / "edge"),
        }
        system = closing.enter_context(
            ControllerSystem(
                transports={name: closing.enter_context(api_transport(file)) for name, file in kubeconfigs.items()},
                controllers=[marker(CONFIGMAPS.on(name)) for name in servers],
                election=dict.fromkeys(servers, lease),
                log=log,
            )
        )

        def add(cluster: str, name: str) -> None:
            apis[cluster].request("POST", PATH, {"metadata": {"name": name}})

        def marked(cluster: str, name: str) -> bool:
            return is_marked(apis[cluster].get(f"{PATH}/{name}"))

        for cluster in servers:
            add(cluster, "before")
            until(lambda cluster=cluster: marked(cluster, "before"), f"marked on {cluster}")  # type: ignore[misc]
        proxy.cut()
        for number in range(3):
            add("edge", f"away-{number}")
            add("hub", f"here-{number}")
            until(lambda number=number: marked("hub", f"here-{number}"), "hub works", within=5.0)  # type: ignore[misc]
        # The Lease of edge is lost, and only its controller stops.
        until(lambda: not system.actors.is_alive("controller:marker-edge"), "the controller of edge stops")
        assert system.actors.is_alive("controller:marker-hub")
        assert system.end is None
        assert not marked("edge", "away-0")
        proxy.heal()
        until(lambda: all(marked("edge", f"away-{number}") for number in range(3)), "edge catches up")
