"""ServiceCIDRs with the real kube-controller-manager and kcm on one kube-apiserver, and kcm on its own server.

Finalizers, conditions, managedFields and events must be equal, and so must the addresses and the errors of the two
servers. Entries of managedFields for IPAddresses differ by their manager: kube-apiserver, and unknown in ours.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.conftest import in_namespace
from tests.e2e.programs import ending, managing, run_kcm, until
from tests.e2e.real_server import assets_or_skip, real_manager, real_server
from tests.e2e.service_ranges import RangeUser
from tests.e2e.snapshots import Snapshot, differences

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]

ONLY = "--controllers=service-cidr-controller"


def without_managers(seen: Snapshot) -> Snapshot:
    """Return a snapshot without the managedFields, which the embedded server does not write for its own objects."""
    return {
        title: ["\n".join(line for line in text.splitlines() if '"{\\"' not in line) for text in texts]
        for title, texts in seen.items()
    }


def test_service_cidrs_are_managed_as_by_the_real_manager(tmp_path: Path) -> None:
    with real_server(tmp_path, assets_or_skip()) as server:
        with real_manager(server, "--controllers=replicationcontroller,replicaset,deployment,service-cidr-controller"):
            theirs = RangeUser(in_namespace(server.kubeconfig, "theirs")).play()
        manager = run_kcm(tmp_path / "kcm.log", f"--kubeconfig={server.kubeconfig}", "--leader-elect=false", ONLY)
        with ending(manager.program):
            synced = '"Caches are synced" controller="service-cidr-controller"'
            until(lambda: synced in manager.program.text(), "kcm works", why=manager.program.text)
            ours = RangeUser(in_namespace(server.kubeconfig, "ours")).play()
    theirs, ours = (
        {title: [text.replace(name, "<namespace>") for text in texts] for title, texts in seen.items()}
        for name, seen in (('"theirs"', theirs), ('"ours"', ours))
    )
    assert differences(theirs, ours) == ""
    with managing(tmp_path / "own.log", f"--embedded-dir={tmp_path / 'kcm'}", "--hollow-nodes=0") as _:
        own = RangeUser(in_namespace(tmp_path / "kcm" / "kubeconfig", "own")).play()
    own = {title: [text.replace('"own"', "<namespace>") for text in texts] for title, texts in own.items()}
    assert differences(without_managers(theirs), without_managers(own)) == ""
