from __future__ import annotations

import pytest

from kcm.runtime.faults.plan_file import read_plan
from tests.bench.soak import Samples, fault_plan, soak, trend, trends, warm_up

SECONDS = [5.0 * number for number in range(60)]


@pytest.mark.parametrize(
    ("values", "flat"),
    [
        ([100.0] * 60, True),
        ([100.0 + number % 7 for number in range(60)], True),
        ([100.0] * 58 + [140.0] * 2, True),
        ([100.0 + number * 0.2 for number in range(60)], False),
        ([100.0 - number * 0.2 for number in range(60)], True),
        ([100.0 + (20.0 if number % 10 < number / 8 else 0.0) for number in range(60)], True),
        ([100.0 + number * 0.2 + (20.0 if number % 10 < number / 8 else 0.0) for number in range(60)], False),
    ],
    ids=["constant", "noise", "peak at the end", "rise", "fall", "longer peaks", "rise below longer peaks"],
)
def test_memory_is_flat_unless_line_medians_and_lowest_values_rise(values, flat):
    assert trend("manager, MB", SECONDS, values).flat is flat


def test_one_more_thread_is_flat_and_three_are_not():
    assert trend("manager, threads", SECONDS, [10.0] * 30 + [11.0] * 30).flat
    assert not trend("manager, threads", SECONDS, [10.0] * 20 + [12.0] * 20 + [14.0] * 20).flat


def test_slope_is_given_per_hour():
    assert trend("manager, MB", SECONDS, [at / 3600 for at in SECONDS]).per_hour == pytest.approx(1.0)


def test_samples_of_the_warm_up_are_left_out():
    samples = Samples()
    for at in SECONDS:
        samples.add(at, {"manager, MB": 10.0 if at < 100 else 50.0})

    (found,) = trends(samples.after(100.0))

    assert (found.mean, found.first, found.last) == (50.0, 50.0, 50.0)


@pytest.mark.parametrize(("minutes", "seconds"), [(90, 2700), (30, 1080), (1, 36)])
def test_warm_up_lasts_until_the_caches_are_full_and_leaves_something_to_measure(minutes, seconds):
    assert warm_up(minutes) == pytest.approx(seconds)


def test_fault_plan_covers_the_whole_run(tmp_path):
    file = tmp_path / "plan.yml"
    file.write_text(fault_plan(30))

    faults = read_plan(file).faults

    assert max(fault.start for fault in faults) > 29 * 60 - 60
    assert {fault.kind for fault in faults} >= {"actor-crashed", "command-answered", "partition", "lease-stolen"}


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_soak_ends_and_returns_trends_of_all_processes(tmp_path):
    result = soak(tmp_path, minutes=0.75, plan=fault_plan(0.75), say=print, sampling=2.0)

    names = {found.name for found in result.trends}
    assert names == {
        "manager, queued keys",
        *(
            f"{process}, {figure}"
            for process in ("manager", "API server", "hollow nodes")
            for figure in ("MB", "threads", "descriptors")
        ),
    }
    assert result.counts["namespaces"] > 1
    assert result.counts["keys added"] > 100
    assert result.grown
