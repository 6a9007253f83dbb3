"""Setup of the command: its system and the limits of its metrics depend on the flags and on the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcm.actors.app.arguments import read_options
from kcm.actors.command.run_setup import MUTATION_DETECTOR, StartError, is_true, new_metrics
from kcm.runtime.metrics.registry import Family

WORK = Family(name="work_total", kind="counter", help="Work.", labels=("who",))


@pytest.mark.parametrize(
    ("value", "is_set"),
    [("true", True), ("1", True), ("T", True), ("false", False), ("0", False), ("", False), ("yes", False)],
)
def test_environment_variable_is_read_as_go_reads_booleans(value: str, is_set: bool) -> None:
    assert is_true({MUTATION_DETECTOR: value}, MUTATION_DETECTOR) is is_set


def test_missing_environment_variable_is_false() -> None:
    assert not is_true({}, MUTATION_DETECTOR)


def test_flags_limit_the_label_values_of_a_metric() -> None:
    metrics = new_metrics(read_options(["--allow-metric-labels=work_total,who=ann,bob"]))
    for who in ("ann", "bob", "eve"):
        metrics.counter(WORK, who).inc()
    [(_, series)] = metrics.collect()
    assert [labels for labels, _ in series] == [("ann",), ("bob",), ("unexpected",)]


def test_manifest_limits_the_label_values_of_a_metric(tmp_path: Path) -> None:
    manifest = tmp_path / "labels.yml"
    manifest.write_text('"work_total,who": "ann"\n')
    metrics = new_metrics(read_options([f"--allow-metric-labels-manifest={manifest}"]))
    metrics.counter(WORK, "eve").inc()
    [(_, [(labels, _)])] = metrics.collect()
    assert labels == ("unexpected",)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "failed to read allow list manifest: No such file or directory"),
        ("a: [1", "failed to parse allow list manifest: "),
        ("- a", "failed to parse allow list manifest: not a map of strings to strings"),
        ('"m,l": 1', "failed to parse allow list manifest: not a map of strings to strings"),
        ('"nolabel": "x"', "invalid allow list mapping in manifest: Invalid value: "),
    ],
)
def test_unusable_manifest_ends_the_start(tmp_path: Path, text: str | None, problem: str) -> None:
    manifest = tmp_path / "labels.yml"
    if text is not None:
        manifest.write_text(text)
    with pytest.raises(StartError) as error:
        new_metrics(read_options([f"--allow-metric-labels-manifest={manifest}"]))
    assert f'metrics.allowListMappingManifest: Invalid value: "{manifest}": {problem}' in str(error.value)
