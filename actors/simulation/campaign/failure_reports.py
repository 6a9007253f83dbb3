"""Reports of failed runs, which are reduced to few faults and user actions and run again with a recording."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from kcm.actors.reconciliation.actor_names import DISCOVERY, DISPATCHER, ELECTOR, MANAGER, RECORDER, is_elector
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.campaign import last_syncs
from kcm.actors.simulation.campaign.checks import SAME_END, check, differences, run_without_faults
from kcm.actors.simulation.campaign.recorder import Recording, SentMessage
from kcm.actors.simulation.campaign.runs import ACTIONS_ARE_POSSIBLE, POLL_INTERVAL, SETTLES, Run, replay_command, run
from kcm.actors.simulation.campaign.setting import USUAL, Composition, Setting
from kcm.actors.simulation.campaign.user_actions import UserActions
from kcm.actors.simulation.fault_schedule import LEASE
from kcm.actors.simulation.invariants.common.writes import Quiet
from kcm.actors.simulation.invariants.observer import Violation
from kcm.protocols.arguments import check_number, check_type
from kcm.protocols.nodes import LEASE_NAMESPACE
from kcm.protocols.objects import make_key, split_key
from kcm.runtime.faults.vocabulary import Fault
from kcm.runtime.simulation.shrinker import shrunk
from kcm.runtime.simulation.trace import Note
from kcm.runtime.system.journal_table import described, keys_in

LINES = 60  # maximum number of messages in a report
LONGEST = 1_000  # maximum length of a text in a message
PATIENCE = 300.0  # seconds after the end of a run within which it may still reach the expected end state
MOST_RUNS = 60  # maximum number of runs to shrink the faults, and again for the user actions
CHATTER = ("Ping", "Pong", "Wake", "Streamed", "Listed")  # messages that do not concern an object
MANAGERS = "manager"  # beginning of the names of processes with controllers of the setting
INFRASTRUCTURE = (MANAGER, DISPATCHER, RECORDER, ELECTOR, DISCOVERY)
AGAIN = ("run the test again: hypothesis tries saved examples first; or use @hypothesis.reproduce_failure",)
_WORD = re.compile(r"[\w.:/-]+")
_NAMED = re.compile(r"\S*[\d-]\S*")  # numbers, and names with a drawn part


def minimized(failed: Run, *, setting: Setting = USUAL) -> Run:
    """Reduce a failed run to the fewest faults and user actions that still cause the failure; return a recorded run."""
    fewer = _fewest_actions(_fewest_faults(failed, setting), setting)
    return recorded(fewer, setting=setting)


def recorded(failed: Run, *, setting: Setting = USUAL, journal: Path | None = None) -> Run:
    """Run a failed run again, with a recording and hints for the report. journal: see Recording."""
    again = check(failed.seed, failed.faults, setting=setting, actions=failed.chosen, recording=Recording(journal))
    again.hints = list(_hints(again, setting))
    return again


def _fewest_faults(failed: Run, setting: Setting) -> Run:
    names = {violation.invariant for violation in failed.violations}

    def rerun(faults: tuple[Fault, ...]) -> Run:
        return check(failed.seed, faults, setting=setting, actions=failed.chosen)

    def fails(faults: tuple[Fault, ...]) -> bool:
        return any(violation.invariant in names for violation in rerun(faults).violations)

    kept = shrunk(failed.faults, fails, most_runs=MOST_RUNS)
    return failed if kept == failed.faults else rerun(kept)


def _fewest_actions(failed: Run, setting: Setting) -> Run:
    """Remove user actions that the failure does not need.

    Without faults, the remaining actions must not cause violations that the complete actions do not cause. Otherwise
    the result could be another failure, for example an action that requires a removed one.
    """
    found = _failure_ids(failed.violations)
    number = setting.number(failed.seed)
    accepted = _failure_ids(run_without_faults(number, setting, failed.chosen).violations)

    def rerun(actions: Collection[int]) -> Run:
        return check(failed.seed, failed.faults, setting=setting, actions=tuple(actions))

    def fails(actions: tuple[int, ...]) -> bool:
        if not _failure_ids(run_without_faults(number, setting, tuple(sorted(actions))).violations) <= accepted:
            return False
        return bool(_failure_ids(rerun(actions).violations) & found)

    all_of_them = tuple(action.number for action in failed.actions)
    kept = shrunk(all_of_them, fails, most_runs=MOST_RUNS)
    return failed if kept == all_of_them else rerun(kept)


def _failure_ids(violations: Iterable[Violation]) -> set[str]:
    """Return identifiers of the violations, to compare the failures of two runs.

    These are the names of the invariants. For a system that does not settle, also each text about the deviation from
    the desired state, without numbers and names that seeds draw.
    """
    found = set()
    for violation in violations:
        if violation.invariant in (SETTLES, ACTIONS_ARE_POSSIBLE):
            found |= {
                f"{violation.invariant}: {_NAMED.sub('#', part)}"
                for part in violation.text.partition(": ")[2].split("; ")
            }
        else:
            found.add(violation.invariant)
    return found


def must_hold(
    seed: int | UserActions, *, setting: Setting | None = None, faults: Sequence[Fault] | None = None
) -> None:
    """Run one seed in a test. Raises AssertionError with a report if the run violates an invariant.

    seed: number of the seed, or UserActions that hypothesis has drawn. The failure of a number is reported with the
        fewest faults and user actions that cause it. UserActions are run unchanged, because hypothesis reduces them.
    setting: None for the default setting. UserActions have their own.
    faults: None to use the faults that the seed draws.
    """
    if isinstance(seed, UserActions):
        if setting is not None:
            raise TypeError(f"UserActions have their own setting, {seed.setting.name}: omit `setting`")
        result = check(seed.number, faults, setting=seed.setting)
        if result.violations:
            raise AssertionError(report(recorded(result, setting=seed.setting), replay=AGAIN))
        return
    setting = USUAL if setting is None else setting
    check_type("setting of must_hold", setting, Setting, "a Setting")
    check_number("seed of must_hold", seed, whole=True)
    result = check(seed, faults, setting=setting)
    if result.violations:
        raise AssertionError(report(minimized(result, setting=setting)))


# Hints.


def _hints(failed: Run, setting: Setting) -> Iterator[str]:
    """Yield hints for the author of a trial: its `unsettled` may have reported a settled system too early."""
    names = {violation.invariant for violation in failed.violations}
    if failed.settled is None:
        return
    if Quiet.name in names:
        yield (
            f"from {failed.settled:g} s on `unsettled` yielded nothing. If this write was still necessary, `unsettled` "
            "is incomplete; otherwise the controller writes without need."
        )
    if SAME_END in names and (seconds := _late_end(failed, setting)) is not None:
        reference = run_without_faults(setting.number(failed.seed), setting, failed.chosen, brief=False)
        yield (
            f"{seconds:g} s later the end state is the same. From {failed.settled:g} s on `unsettled` yielded nothing: "
            f"it does not consider {'; '.join(differences(reference.end, failed.end))}."
        )


def _late_end(failed: Run, setting: Setting) -> float | None:
    """Continue the run until it reaches the expected end state. Return the additional seconds; None if it does not."""
    reference = run_without_faults(setting.number(failed.seed), setting, failed.chosen, brief=False)
    found: list[float] = []

    def until_expected(cluster: SimulatedCluster, composed: Composition, result: Run) -> None:
        for _ in range(round(PATIENCE / POLL_INTERVAL)):
            cluster.run_for(POLL_INTERVAL)
            if composed.end_state(cluster) == reference.end:
                found.append(cluster.clock.monotonic() - result.seconds)
                return

    run(failed.seed, failed.faults, setting=setting, actions=failed.chosen, later=until_expected)
    return found[0] if found else None


# The report.


def report(failed: Run, *, replay: Sequence[str] | None = None) -> str:
    """Return the report of a failed run. Its last part is the command that replays the run.

    failed: result of `minimized` or `recorded`.
    replay: lines about how to repeat the run; None for the command.
    """
    lines = [f"seed {failed.seed} of {failed.setting} violates:", *_indented(map(str, failed.violations))]
    if failed.hints:
        lines += ["hint:", *_indented(failed.hints)]
    lines += ["user actions:", *_indented(_user_actions(failed))]
    lines += ["faults:", *_indented(map(str, failed.faults) if failed.faults else ["none"])]
    lines += ["exceptions:", *_indented(failed.mishaps or ["none"])]
    if syncs := _last_syncs(failed):
        lines += ["last syncs and pending syncs of the objects concerned:", *_indented(syncs)]
    lines += ["latest messages about the objects concerned:", *_indented(_latest_messages(failed))]
    lines += ["replay:", *_indented(_replay(failed) if replay is None else replay)]
    return "\n".join(lines)


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)


def _user_actions(failed: Run) -> Iterator[str]:
    for action in failed.actions:
        when = ""
        if action.done is None:
            when = " (not carried out)"
        elif action.done > action.at + POLL_INTERVAL:
            when = f" (carried out at {action.done:.2f} s)"
        yield f"{action.number:>3}  {action.at:>7.2f} s  {action.text}{when}"
    if not failed.actions:
        yield "none"


def _replay(failed: Run) -> Iterator[str]:
    line = replay_of(failed)
    yield line
    yield f"{line} --journal FILE"


def replay_of(failed: Run) -> str:
    """Return the command line that replays the failed run."""
    return replay_command(failed.setting, failed.seed, failed.faults, failed.chosen)


def _last_syncs(failed: Run) -> list[str]:
    return [] if failed.recording is None else last_syncs.lines(failed.recording.keys, _words(failed))


def _words(failed: Run) -> set[str]:
    """Return all words in the texts of the violations. Keys, names and kinds of objects are among them."""
    text = " ".join(violation.text for violation in failed.violations)
    return {word.strip(".:,") for word in _WORD.findall(text)}


def _latest_messages(failed: Run) -> list[str]:
    """Return the latest messages about the objects and actors that the violations name; about all if they name none."""
    if failed.recording is None:
        return ["not recorded"]
    sent = failed.recording.sent
    about = _concerned(failed, failed.recording)
    lines: list[tuple[float, str]] = []
    left_out = 0
    for frame in reversed(sent):
        message = frame.message
        if message is None or not _is_about(frame, message, about):
            continue
        if len(lines) == LINES:
            left_out += 1
            continue
        cause = f"#{frame.cause}" if frame.cause else "-"
        text = described(message, longest=LONGEST)
        lines.append(
            (frame.at, f"{frame.process:<10} #{frame.number:<6} {cause:<7} {frame.sender} → {frame.to}: {text}")
        )
    lines.reverse()
    since = lines[0][0] if left_out else 0.0
    notes = [(note.at, f"{note.process:<10} {_who(note)}{note.text}") for note in failed.notes if note.at >= since]
    shown = [f"{at:>9.3f} s  {text}" for at, text in sorted([*lines, *notes], key=lambda line: line[0])]
    if left_out:
        shown.insert(0, f"({left_out} earlier messages are omitted; --journal writes all messages)")
    if not about.keys and not about.actors:
        shown.insert(
            0,
            "(no message is about the objects that the violations name: all messages but those about Leases are shown)",
        )
    elif not lines:
        shown.insert(0, "(no message is about these objects)")
    return shown


def _who(note: Note) -> str:
    return f"{note.who} " if ":" in note.who or note.who in INFRASTRUCTURE else ""


class _Concerned(NamedTuple):
    """Objects and actors that a report is about.

    keys: keys of objects, "namespace/name" or "name".
    actors: names of actors.
    hollow: include messages in the process of the hollow nodes.
    """

    keys: frozenset[str]
    actors: frozenset[str]
    hollow: bool


def _concerned(failed: Run, recording: Recording) -> _Concerned:
    """Return the objects and actors that the violations name.

    Leases of nodes are included only if a violation contains the word Lease, because they have the names of the nodes.
    """
    words = _words(failed)
    names_leases = any("Lease" in word for word in words)
    sent, actors = recording.sent, set()
    keys = {state.key for state in recording.keys if state.kind and last_syncs.is_named(state, words)}
    for frame in sent:
        actors |= {name for name in (frame.sender, frame.to) if name in words or name.partition(":")[2] in words}
        for key in keys_in(frame.message):
            namespace, name = split_key(key)
            if (key in words or name in words) and (namespace != LEASE_NAMESPACE or names_leases):
                keys.add(key)
    hollow = any(not frame.process.startswith(MANAGERS) and frame.sender in actors for frame in sent)
    return _Concerned(frozenset(keys), frozenset(actors), hollow)


def _is_about(sent: SentMessage, message: object, about: _Concerned) -> bool:
    if type(message).__name__ in CHATTER or (not sent.process.startswith(MANAGERS) and not about.hollow):
        return False
    if about.keys:
        return not about.keys.isdisjoint(keys_in(message))
    if about.actors:
        return sent.sender in about.actors or sent.to in about.actors
    if is_elector(sent.sender) or is_elector(sent.to):
        return False
    lease = make_key(*LEASE)  # also the prefix of the keys of its events
    return not any("lease" in key or key.startswith(lease) for key in keys_in(message))
