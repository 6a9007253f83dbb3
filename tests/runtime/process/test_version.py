"""Formats of the version in commands and pages."""

from __future__ import annotations

import pytest

from kcm.runtime.process.version import Version


@pytest.mark.parametrize(
    "requested, beginning",
    [
        ("true", "Kubernetes v1.36.2+kcm.0.1.0"),
        ("raw", 'version.Info{Major:"1", Minor:"36", GitVersion:"v1.36.2+kcm.0.1.0", '),
    ],
)
def test_the_version_is_printed_as_upstream_prints_it(requested: str, beginning: str) -> None:
    assert Version(kubernetes="1.36.2", kcm="0.1.0").describe(requested).startswith(beginning)
