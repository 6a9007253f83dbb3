"""Labels that have an older name as well."""

from __future__ import annotations

import pytest

from kcm.actors.controllers.nodes.node_lifecycle.labels import missing_labels

OS, OLD_OS = "kubernetes.io/os", "beta.kubernetes.io/os"
ARCH, OLD_ARCH = "kubernetes.io/arch", "beta.kubernetes.io/arch"


@pytest.mark.parametrize(
    ("labels", "missing"),
    [
        (None, {}),
        ({"other": "x"}, {}),
        ({OLD_OS: "linux"}, {}),
        ({OS: "linux", ARCH: "arm64"}, {OLD_OS: "linux", OLD_ARCH: "arm64"}),
        ({OS: "linux", OLD_OS: "windows"}, {OLD_OS: "linux"}),
        ({OS: "linux", OLD_OS: "linux"}, {}),
        ({OS: ""}, {OLD_OS: ""}),
    ],
)
def test_older_labels_say_what_the_newer_ones_say(labels: dict[str, str] | None, missing: dict[str, str]) -> None:
    assert missing_labels({"metadata": {"labels": labels}}) == missing
