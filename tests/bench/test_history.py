from __future__ import annotations

from typing import Any

from tests.bench.history import OURS, THEIRS, keep, kept, trend
from tests.bench.run_info import Noise, run_info

BENCHMARK = "1 ReplicaSet of 1000"


def run(date: str, commit: str, ours: float, theirs: float | None = None, **more: Any) -> dict[str, Any]:
    figures = [
        {"benchmark": BENCHMARK, "who": OURS, "figure": "pods_per_second", "values": [ours - 10, ours, ours + 50]}
    ]
    if theirs is not None:
        figures.append({"benchmark": BENCHMARK, "who": THEIRS, "figure": "pods_per_second", "values": [theirs]})
    return {"date": date, "commit": commit, "figures": figures, **more}


def test_trend_has_line_for_each_run_with_ratio_to_real_manager(tmp_path):
    keep(run("2026-12-02T10:00:00+00:00", "bbb", 1200.0, 1000.0, noise={"spread": 1.31}), directory=tmp_path)
    keep(
        run("2026-12-01T10:00:00+00:00", "aaa", 800.0, counts={"a pod created": {"bytecodes": 8275.2}}),
        directory=tmp_path,
    )

    lines = [line.split() for line in trend(kept(tmp_path)).splitlines()]

    assert lines[0] == ["date", "commit", "noise", "1", "of", "1000,", "pods/s", "a", "pod"]
    assert lines[1] == ["2026-12-01", "aaa", "800", "8,275"]
    assert lines[2] == ["2026-12-02", "bbb", "1.31×", "1200", "(1.20×)"]


def test_second_run_of_same_commit_does_not_replace_first(tmp_path):
    first, second = (keep(run("2026-12-01", "aaa", 800.0, label="0.2.0"), directory=tmp_path) for _ in range(2))

    assert (first.name, second.name) == ("2026-12-01-0.2.0.json", "2026-12-01-0.2.0-2.json")
    assert len(kept(tmp_path)) == 2


def test_kept_results_are_printed():
    assert "2026-11-21" in trend(kept())


def test_trend_without_results_names_the_option_that_keeps_one(tmp_path):
    assert "--keep" in trend(kept(tmp_path))


def test_noise_is_spread_of_loop_times():
    noise = Noise()
    for _ in range(3):
        noise.measure()
    assert len(noise.wall) == len(noise.load) == 3
    assert noise.as_json()["spread"] >= 1.0


def test_run_info_contains_commit_and_machine():
    info = run_info()
    assert set(info) == {"date", "kcm", "commit", "python", "libraries", "machine"}
    assert info["libraries"]["msgpack"]
    assert info["machine"]["cores"] >= 1
