"""A second ServiceCIDR on the embedded cluster: it is protected while a Service has an address of it."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.conftest import in_namespace
from tests.e2e.programs import managing
from tests.e2e.service_ranges import ADDRESS, RangeUser


def test_service_cidr_lives_as_long_as_its_addresses(tmp_path: Path) -> None:
    place = tmp_path / "kcm"
    with managing(tmp_path / "kcm.log", f"--embedded-dir={place}", "--hollow-nodes=0"):
        kubectl = in_namespace(place / "kubeconfig", "ranges")
        seen = RangeUser(kubectl).play()
    (refused,) = seen["01 the address of another Service"]
    assert refused.endswith(f"failed to allocate IP {ADDRESS}: provided IP is already allocated")
    assert any(
        "There are still IPAddresses referencing the ServiceCIDR" in text for text in seen["06 it is being deleted"]
    )
    assert seen["08 nothing is left"] == []
