"""Record and replay of a run in which resources are added and removed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from kcm.actors.app.system import ControllerSystem
from kcm.actors.command.journal.replay import replay
from kcm.actors.options import Options
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.codec import decode
from kcm.protocols.messages.discovery import ResourcesDiscovered, TablesChanged
from kcm.protocols.messages.journal import MessageSent
from kcm.protocols.resources import PODS, Resource
from kcm.runtime.system.journal import JournalWriter, RecordedRun, read_journal
from kcm.runtime.system.journal_table import described
from tests.actors.engine.discovery.test_discovered_resources import CRDS, THINGS, crd
from tests.support.census import CONFIGMAPS, census


def test_a_controller_of_discovered_resources_is_replayed(
    tmp_path: Path, make_cluster: Callable[..., SimulatedCluster], log: Any
) -> None:
    path, spec, cluster = tmp_path / "journal", census([]), make_cluster(seed=5)

    def record(_name: str, system: ControllerSystem) -> None:
        run = RecordedRun(version="test", seed=5, arguments=[], controllers=[spec.name])
        system.actors.journal = JournalWriter(path, run=run, clock=system.clock, largest=10_000_000, files=3)

    def create(resource: Resource, name: str, **parts: Any) -> None:
        cluster.create(resource, {"metadata": {"name": name}, **parts})

    cluster.started.append(record)
    system = cluster.manager(controllers=(spec,))
    create(PODS, "a", spec={"containers": [{"name": "c", "image": "i"}]})
    cluster.create(CRDS, crd())
    create(THINGS, "one")
    cluster.run_for(20.0)
    create(THINGS, "two")
    cluster.run_for(5.0)
    cluster.delete(CRDS, "things.example.com")
    cluster.run_for(20.0)
    create(PODS, "b", spec={"containers": [{"name": "c", "image": "i"}]})
    cluster.run_for(5.0)
    counted = cluster.get(CONFIGMAPS, "default/census-none")
    assert counted is not None
    assert counted["data"]["pods"] == "2"
    journal = system.actors.journal
    assert isinstance(journal, JournalWriter)
    journal.close()

    records = list(read_journal(path))
    done = replay(records, spec.name, specs=(census([]),), read_options=lambda _arguments: Options(), log=log)
    assert done.difference is None
    assert done.batches >= 4
    sent = [decode(record.frame) for record in records if isinstance(record, MessageSent) and record.frame]
    assert {type(message) for message in sent} >= {ResourcesDiscovered, TablesChanged}
    assert all(described(message) for message in sent)
