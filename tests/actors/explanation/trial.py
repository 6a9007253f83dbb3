"""Scored trial of kinds of stuck objects; the details of half of them are drawn by a seed.

    python -m tests.actors.explanation.trial [--seed 7] [--rounds 3] [--only WORD] [--blind [--set NAME]]

A scenario is right if the code of its first cause is the expected one. Drawn are its kind, its sizes, the way in which
it fails, and healthy workloads beside it. docs/why-trial.md lists the scenarios.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kcm.actors.explanation.cause import Explanation
from kcm.actors.explanation.text import text_of
from tests.actors.explanation.blind import BLIND, SETS
from tests.actors.explanation.blind_scenario import BlindScenario
from tests.actors.explanation.scenario import Scenario, Scene
from tests.actors.explanation.scenarios import SCENARIOS
from tests.actors.explanation.stage import Stage

SOON = 10.0  # seconds; scenarios with a shorter wait are explained before the next one begins


@dataclass(frozen=True)
class Outcome:
    scenario: Scenario
    explanation: Explanation

    @property
    def found(self) -> str:
        causes = self.explanation.causes
        return causes[0].code if causes else self.explanation.verdict

    @property
    def is_right(self) -> bool:
        return self.scenario.accepts(self.found, self.explanation)

    @property
    def missing(self) -> list[str]:
        """Return the codes that the further causes lack."""
        further = {cause.code for cause in self.explanation.causes[1:]}
        return [code for code in self.scenario.further if code not in further]


def drawn_half(scenarios: Sequence[Scenario], seed: int) -> set[str]:
    """Return the names of the scenarios whose details are drawn by the seed; the others have the same ones always."""
    return {scenario.name for scenario in random.Random(seed).sample(list(scenarios), len(scenarios) // 2)}


def run_trial(scenarios: Sequence[Scenario], *, seed: int) -> Iterator[Outcome]:
    """Yield the outcome of each scenario. Those that may share a cluster do."""
    drawn = drawn_half(scenarios, seed)
    shared: dict[object, list[Scenario]] = {}
    for scenario in scenarios:
        place = scenario.name if scenario.alone else (scenario.flags, tuple(sorted(scenario.stage.items())))
        shared.setdefault(place, []).append(scenario)
    for group in shared.values():
        flags = group[0].flags
        with Stage(*(flags() if callable(flags) else flags), seed=seed, **group[0].stage) as stage:
            yield from _on_stage(stage, group, seed, drawn)


def _on_stage(stage: Stage, scenarios: Iterable[Scenario], seed: int, drawn: set[str]) -> Iterator[Outcome]:
    asked: list[tuple[Scenario, float, str, str]] = []
    for number, scenario in enumerate(scenarios):
        namespace = f"s{number}"
        stage.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        stage.run(3.0)
        chance = random.Random(f"{scenario.name} {seed if scenario.name in drawn else 'always'}")
        scene = Scene(stage, namespace, chance)
        if scenario.name in drawn:
            _neighbours(scene)
        kind, name = scenario.act(scene)
        key = name if stage.is_cluster_scoped(kind) else f"{namespace}/{name}"
        if scenario.wait < SOON:
            stage.run(scenario.wait)
            yield Outcome(scenario, stage.why(kind, key))
            continue
        asked.append((scenario, stage.cluster.clock.now() + scenario.wait, kind, key))
    for scenario, at, kind, key in sorted(asked, key=lambda question: question[1]):
        stage.run(max(0.0, at - stage.cluster.clock.now()))
        yield Outcome(scenario, stage.why(kind, key))


def _neighbours(scene: Scene) -> None:
    """Create up to two healthy workloads, which run before the scenario begins."""
    for number in range(scene.chance.randint(0, 2)):
        kind = scene.chance.choice(("Deployment", "StatefulSet", "DaemonSet"))
        scene.pod_owner(f"neighbour-{number}", kind=kind, replicas=scene.chance.randint(1, 2))
        scene.run(scene.chance.choice((1.0, 4.0)))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.actors.explanation.trial")
    parser.add_argument("--seed", type=int, default=0, help="draws the details of half of the scenarios")
    parser.add_argument("--rounds", type=int, default=1, help="rounds with the following seeds")
    parser.add_argument("--only", default="", help="only scenarios whose name contains this text; prints them whole")
    parser.add_argument(
        "--blind", action="store_true", help="only the scenarios of an author who had not read the rules"
    )
    parser.add_argument("--set", choices=SETS, help="with --blind: only the scenarios of this set")
    given = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    chosen: Sequence[Scenario] = SCENARIOS
    if given.blind:
        chosen = SETS[given.set] if given.set else BLIND
    scenarios = [scenario for scenario in chosen if given.only in scenario.name]
    seeds = range(given.seed, given.seed + given.rounds)
    outcomes = [outcome for seed in seeds for outcome in run_trial(scenarios, seed=seed)]
    for outcome in outcomes:
        mark = "right" if outcome.is_right else "WRONG"
        print(f"{mark}  {outcome.scenario.name}: {outcome.found} ({outcome.scenario.code})")
        for code in outcome.missing:
            print(f"       {outcome.scenario.name} lacks the further cause {code}")
        if not outcome.is_right or outcome.missing or given.only:
            if isinstance(outcome.scenario, BlindScenario):
                first = outcome.explanation.causes[:1]
                objections = outcome.scenario.objections(first[0]) if first else outcome.scenario.facts
                print(f"        in truth: {outcome.scenario.cause}")
                print(f"        lacks: {', '.join(objections)}")
            print("".join(f"        {line}\n" for line in text_of(outcome.explanation).splitlines()))
    right = sum(outcome.is_right for outcome in outcomes)
    print(f"{right} of {len(outcomes)} first causes are right ({100 * right / max(1, len(outcomes)):.1f} %)")
    return 0 if right == len(outcomes) and not any(outcome.missing for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
