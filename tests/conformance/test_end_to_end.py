"""One spec of upstream's e2e tests against the embedded cluster, if e2e.test is available."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.__main__ import binary_path, main

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]


def test_a_spec_of_upstreams_passes_on_the_embedded_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if binary_path() is None:
        pytest.skip("there is no e2e.test: KUBEBUILDER_ASSETS names the directory with it")
    spec = "ReplicationController should release no longer matching pods"
    assert main(["embedded", "--focus", spec, "--logs", str(tmp_path)]) == 0
    assert "embedded: 1 passed" in capsys.readouterr().out


def test_missing_binary_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    assert main(["embedded"]) == 2
    assert "there is no e2e.test: KUBEBUILDER_ASSETS names the directory with it" in capsys.readouterr().err
