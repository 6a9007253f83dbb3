"""Record and replay of a run of a controller with selective watches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kcm.actors.app.system import ControllerSystem
from kcm.actors.command.journal.replay import replay
from kcm.actors.options import Options
from kcm.actors.reconciliation.specs import ControllerSpec
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.resources import NAMESPACES as NAMESPACE_RESOURCE
from kcm.runtime.system.journal import JournalWriter, RecordedRun, read_journal
from tests.support.mirror import CONFIGMAPS, MIRROR, NAMESPACES, SECRETS, SHOP, WHOLE, mirror


@pytest.mark.parametrize("beside", [(), (WHOLE,), (SHOP,)], ids=["alone", "beside a whole one", "beside one of a part"])
def test_controller_with_selector_is_replayed_with_any_other_controllers(
    beside: tuple[ControllerSpec, ...], tmp_path: Path, make_cluster: Callable[..., SimulatedCluster], log: Any
) -> None:
    path, specs, cluster = tmp_path / "journal", (mirror(), *beside), make_cluster(seed=5)

    def record(_name: str, system: ControllerSystem) -> None:
        run = RecordedRun(version="test", seed=5, arguments=[], controllers=[spec.name for spec in specs])
        system.actors.journal = JournalWriter(path, run=run, clock=system.clock, largest=10_000_000, files=3)

    cluster.started.append(record)
    for namespace in NAMESPACES:
        cluster.create(NAMESPACE_RESOURCE, {"metadata": {"name": namespace}})
    system = cluster.manager(controllers=specs)
    for number, (app, namespace) in enumerate((("web", "shop"), ("db", "shop"), ("web", "blog"), ("web", "default"))):
        meta = {"name": f"c{number}", "namespace": namespace, "labels": {"app": app}}
        cluster.create(CONFIGMAPS, {"metadata": meta})
        cluster.run_for(1.0)
    cluster.merge(CONFIGMAPS, "shop/c0", {"metadata": {"labels": {"app": "db"}}})
    cluster.merge(CONFIGMAPS, "shop/c1", {"metadata": {"labels": {"app": "web"}}})
    cluster.run_for(5.0)
    assert len(cluster.list(SECRETS, "shop")) == len(cluster.list(SECRETS, "blog")) == 1
    journal = system.actors.journal
    assert isinstance(journal, JournalWriter)
    journal.close()

    done = replay(list(read_journal(path)), MIRROR, specs=specs, read_options=lambda _arguments: Options(), log=log)
    assert done.difference is None
    assert done.batches == 4, "three creations and a deletion"
