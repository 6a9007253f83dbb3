"""Campaigns: many seeded runs, in this process or in the workers of an executor, with results in the order of seeds."""

from __future__ import annotations

import contextlib
import itertools
import pickle
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from kcm.actors.simulation.campaign.checks import check
from kcm.actors.simulation.campaign.coverage import Coverage
from kcm.actors.simulation.campaign.failure_reports import minimized, recorded, replay_of, report
from kcm.actors.simulation.campaign.groups import Groups
from kcm.actors.simulation.campaign.kept_seeds import KeptSeeds
from kcm.actors.simulation.campaign.seed_results import Tried
from kcm.actors.simulation.campaign.setting import USUAL, Setting
from kcm.actors.simulation.campaign.settings import importable_name, setting_named
from kcm.protocols.arguments import check_number, check_type
from kcm.runtime.faults.vocabulary import Fault, FaultKind
from kcm.runtime.process.pool import BrokenExecutor, Executor, Future, processes
from kcm.runtime.simulation.guard import alone

REFERENCES = 4
AHEAD = 4096  # maximum number of attempts queued in an executor; large enough for executors on many machines


class Attempt(Struct, frozen=True):
    """Callable that runs one seed, so that an executor can run it. Its pickle contains only the name of the setting.

    faults, actions: None to use the ones that the seed draws.
    compared: see `check`.
    shrink: report a failure with the fewest faults and user actions that still cause it.
    journal: file for the messages of the run; see Recording.
    """

    setting: Setting
    seed: int
    faults: tuple[Fault, ...] | None = None
    actions: tuple[int, ...] | None = None
    compared: bool = True
    shrink: bool = True
    journal: Path | None = None

    def __call__(self) -> Tried:
        with alone:  # a process can run only one simulation at a time; the executor may use threads
            return self._result()

    def _result(self) -> Tried:
        setting, began = self.setting, time.process_time()
        first = shown = check(self.seed, self.faults, setting=setting, actions=self.actions, compared=self.compared)
        if self.journal is not None:  # the journal records the requested run, without shrinking
            shown = recorded(shown, setting=setting, journal=self.journal)
        elif shown.violations:
            shown = minimized(shown, setting=setting) if self.shrink else recorded(shown, setting=setting)
        return Tried(
            seed=self.seed,
            actions=len(first.actions),
            faults=len(first.faults),
            struck=first.struck,
            coverage=first.coverage,
            checks=first.checked.total(),
            seconds=first.seconds,
            violations=tuple(first.violations),
            report=report(shown) if first.violations else "",
            replay=replay_of(shown) if first.violations else "",
            spent=time.process_time() - began,
        )

    def __reduce__(self) -> tuple[Callable[..., Attempt], tuple[Any, ...]]:
        rest = (self.seed, self.faults, self.actions, self.compared, self.shrink, self.journal)
        return _attempt, (importable_name(self.setting), *rest)


def _attempt(name: str, *rest: Any) -> Attempt:
    return Attempt(setting_named(name), *rest)


class Campaign(Struct):
    """Total results of a campaign, which runs many seeds.

    failed: results of the seeds that violate an invariant, in the order in which the seeds were run.
    stopped: whether the campaign ended before its last seed because enough seeds had failed.
    """

    setting: str
    runs: int = 0
    actions: int = 0
    faults: int = 0
    checks: int = 0
    seconds: float = 0.0
    spent: float = 0.0
    struck: Counter[FaultKind] = field(default_factory=Counter)
    coverage: Coverage = field(default_factory=Coverage)
    failed: list[Tried] = field(default_factory=list)
    stopped: bool = False

    def add(self, tried: Tried) -> None:
        self.runs += 1
        self.actions += tried.actions
        self.faults += tried.faults
        self.checks += tried.checks
        self.seconds += tried.seconds
        self.spent += tried.spent
        self.struck += tried.struck
        self.coverage.add(tried.coverage)
        if tried.violations:
            self.failed.append(tried)

    def must_hold(self) -> None:
        """Raise AssertionError if any seed failed, with one report per group of similar failures. For tests."""
        if self.failed:
            groups = Groups()
            raise AssertionError("\n\n".join([*map(groups.add, self.failed), *groups.lines(), self.summary()]))

    def summary(self) -> str:
        """Return a summary of the results in one line."""
        parts = [
            _count_of(self.runs, "run"),
            _count_of(self.actions, "user action"),
            f"{_count_of(self.faults, 'fault')} that struck {_count_of(self.struck.total(), 'time')}",
            _count_of(self.checks, "check"),
            f"{len(self.failed)} failed{', and the campaign was stopped' if self.stopped else ''}",
        ]
        return f"{', '.join(parts)}; {self.seconds:.0f} simulated seconds in {self.spent:.1f} s of CPU"


def _count_of(number: int, noun: str) -> str:
    return f"{number} {noun if number == 1 else f'{noun}s'}"


def run_campaign(
    setting: Setting = USUAL,
    seeds: Iterable[int] = range(100),
    *,
    jobs: int = 1,
    executor: Executor | None = None,
    failing: Path | None = None,
    references: int = REFERENCES,
    faults: Sequence[Fault] | None = None,
    actions: Sequence[int] | None = None,
    shrink: bool = True,
    stop_after: int | None = None,
    seen: Callable[[Tried], object] = lambda _: None,
) -> Campaign:
    """Run all seeds, and return the total results. They do not depend on the number of jobs.

    jobs: number of parallel processes; 1 is this process, 0 the number of usable processors.
    executor: runs the seeds, instead of `jobs`; it is not shut down. Other processes import the setting by its name.
    failing: file of seeds that failed before. These seeds are run first. Seeds that succeed are removed from the file,
        and failed seeds are added.
    references: every n-th seed is also compared with its run without faults.
    faults, actions: replace those drawn from the seeds.
    stop_after: stop the campaign after this number of failed seeds.
    seen: called with each result, in order.

    Raises ValueError if other processes cannot import the setting. Exceptions of the setting's functions propagate.
    """
    check_type("run_campaign", setting, Setting, "a Setting")
    check_number("jobs of run_campaign", jobs, whole=True)
    if jobs < 0:
        raise ValueError(f"jobs must be 0 or more, not {jobs}")
    if references < 1:
        raise ValueError(f"references must be 1 or more, not {references}")
    if stop_after is not None and stop_after < 1:
        raise ValueError(f"stop_after must be 1 or more, not {stop_after}")
    if executor is not None and jobs != 1:
        raise ValueError("jobs must be 1 with an executor, which limits its parallel runs itself")
    if failing is not None and (faults is not None or actions is not None):
        raise ValueError("failing cannot be combined with faults or actions")
    kept = None if failing is None else KeptSeeds(failing, setting=setting.name)
    before = {} if kept is None else dict.fromkeys(kept.seeds())
    given = None if faults is None else tuple(faults)
    chosen = None if actions is None else tuple(actions)

    def attempts() -> Iterator[Attempt]:
        for seed in before:
            yield Attempt(setting, seed, given, chosen, compared=True, shrink=shrink)
        for seed in seeds:
            if seed not in before:
                yield Attempt(setting, seed, given, chosen, compared=seed % references == 0, shrink=shrink)

    campaign = Campaign(setting.name)
    with ExitStack() as closing:
        if executor is None and jobs != 1:
            importable_name(setting)
            executor = closing.enter_context(processes(jobs or None))
        results = closing.enter_context(contextlib.closing(_in_order(attempts(), executor)))
        for result in results:
            campaign.add(result)
            if kept is not None:
                kept.record(result.seed, [violation.invariant for violation in result.violations])
            seen(result)
            if len(campaign.failed) == stop_after:
                campaign.stopped = True
                break
    return campaign


def _in_order(attempts: Iterable[Attempt], executor: Executor | None) -> Generator[Tried]:
    if executor is None:
        for attempt in attempts:
            yield attempt()
        return
    remaining = iter(attempts)
    under_way: deque[tuple[Attempt, Future[Tried]]] = deque()

    def hand_out(most: int) -> None:
        for attempt in itertools.islice(remaining, most):
            under_way.append((attempt, executor.submit(_run_in_worker, attempt)))

    try:
        hand_out(AHEAD)
        while under_way:
            attempt, future = under_way.popleft()
            try:
                tried = future.result()
            except BrokenExecutor as err:
                err.add_note(
                    f"seed {attempt.seed} of {attempt.setting.name} has no result, and neither have later seeds"
                )
                raise
            yield tried
            hand_out(1)
    finally:
        for _, future in under_way:
            future.cancel()


def _run_in_worker(attempt: Attempt) -> Tried:
    """Run a seed in a worker process. An exception that cannot be pickled is raised as a RuntimeError with its text."""
    try:
        return attempt()
    except Exception as err:
        try:
            pickle.loads(pickle.dumps(err))
        except Exception:
            raise RuntimeError("".join(traceback.format_exception(err))) from None
        raise
