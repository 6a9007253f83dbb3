"""Published manifests are accepted or refused as by kube-apiserver; see bundles.py. Needs the files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.e2e.bundles import ANSWERS, differences, of_embedded

DIRECTORY = os.environ.get("KCM_BUNDLES", "")
PROMETHEUS = "prometheus-operator+prometheus-operator example/user-guides"
# Objects with different responses.
KNOWN = {
    # Rejected by both servers with different texts: upstream also lists the unchecked rules, and has Go's path.
    f"{PROMETHEUS}/scrapeclass/scrapeclass-example-definition.yaml Prometheus/",
    "kubernetes+examples _archived/volumes/fibre_channel/fc.yaml Pod/fibre-channel-example-pod",
}


@pytest.mark.e2e
@pytest.mark.timeout(900)
@pytest.mark.skipif(
    not DIRECTORY, reason="KCM_BUNDLES names no directory with manifests of others (tests/e2e/bundles.py)"
)
def test_published_manifests_are_answered_as_by_kube_apiserver(tmp_path: Path) -> None:
    found = differences(of_embedded(Path(DIRECTORY), tmp_path), json.loads(ANSWERS.read_text()))
    assert [difference for difference in found if difference.partition(":\n")[0] not in KNOWN] == []
    assert len(found) <= len(KNOWN)
