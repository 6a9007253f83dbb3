"""Runs of the same seed are equal to the byte, in any process and with any hash seed of Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kcm.actors.simulation.campaign.runs import run

ROOT = Path(__file__).parents[2]
SEEDS = (3, 6, 11)
PROGRAM = (
    f"from kcm.actors.simulation.campaign.runs import run; print(*(run(seed, traced=True).digest for seed in {SEEDS}))"
)
# All controllers, and a scenario in which they read OpenAPI documents.
SWARM = """
from kcm.actors.simulation.campaign.runs import run
from kcm.actors.simulation.campaign.settings import SWARM
print(run(5100, (), setting=SWARM, brief=True, traced=True).digest)
"""


def digests(hash_seed: str, program: str = PROGRAM) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def test_the_trace_is_the_same_in_every_process() -> None:
    first = digests("1")
    assert len(set(first.split())) == len(SEEDS), "different seeds give different traces"
    assert digests("2") == first


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_trace_of_all_controllers_is_the_same_in_every_process() -> None:
    assert digests("1", SWARM) == digests("2", SWARM)


def test_runs_of_one_process_are_equal() -> None:
    assert run(6, traced=True).digest == run(6, traced=True).digest
