"""`run-kcm top`: live screen of the controllers, queues and zones of a running manager.

Keys: q ends; s sorts by the next column; d, w, o, f, r and n by one of them; arrows scroll; a shows all controllers.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from kcm.actors.command.control_tables import age, number, shown_state, table
from kcm.actors.command.manager_client import ManagerClient, ManagerError, add_manager_flags, open_manager
from kcm.runtime.flags.values import parse_duration
from kcm.runtime.process.full_screen import FullScreen
from kcm.runtime.process.standard_streams import is_terminal
from kcm.runtime.process.termination import Ending, on_signals
from kcm.runtime.scheduling.clock import Clock, SystemClock

KEY_WITHIN = 0.2  # seconds until the next check for a signal
NARROW = 36  # columns of a controller's name
BOLD, RED, YELLOW, PLAIN = "\x1b[1m", "\x1b[31m", "\x1b[33m", "\x1b[0m"
SORTS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {  # by their key on the keyboard: the first letter
    "queued": lambda row: -row["queued"],
    "delayed": lambda row: -row["delayed"],
    "work": lambda row: -row["inWork"],
    "oldest": lambda row: -row["longestWaitingSeconds"] if row["queued"] else 0.0,
    "failing": lambda row: -row["failuresInARow"],
    "rate": lambda row: -row["rate"],
    "name": lambda row: row["name"],
}
TITLES = ("NAME", "STATE", "QUEUE", "DELAY", "WORK", "OLDEST", "FAIL", "RATE/S")
GONE = ("Skipped", "Disabled")  # states of controllers that are left out


class TopSample(Struct, frozen=True, kw_only=True):
    """Content of the manager's pages at one moment. at: monotonic seconds. rates: reconciliations per second."""

    at: float
    system: Mapping[str, Any]
    zones: Sequence[Mapping[str, Any]]
    brake: Mapping[str, Any]
    rates: Mapping[str, float]


class TopView(Struct):
    """Choices of the user."""

    sort: str = "queued"
    scrolled: int = 0
    shows_all: bool = False


def main(argv: Sequence[str]) -> int:
    """Run the command with the arguments that follow `top`, and return its exit code."""
    arguments = parser().parse_args(argv)
    view = TopView(sort=arguments.sort, shows_all=arguments.all)
    clock, stopping = SystemClock(), on_signals()
    try:
        with open_manager(arguments) as manager:
            if arguments.once or not is_terminal(sys.stdout):
                columns = shutil.get_terminal_size((80, 24)).columns if sys.stdout.isatty() else 10_000
                lines = drawing(sample(manager, None, clock), view, columns=columns, lines=10_000, colour=False)
                print("\n".join(lines))
                return 0
            with FullScreen(sys.stdin, sys.stdout) as screen:
                live(manager, screen, view, clock=clock, stopping=stopping, every=arguments.interval)
            return 0
    except ManagerError as err:
        print(f"Error: {err}", file=sys.stderr)
        return 1
    finally:
        clock.close()


def live(
    manager: ManagerClient, screen: FullScreen, view: TopView, *, clock: Clock, stopping: Ending, every: float
) -> None:
    """Show the screen until the user ends it. A manager that does not respond is shown, and requested again."""
    last: TopSample | None = None
    due, trouble = clock.monotonic(), ""
    while not stopping.is_set():
        if clock.monotonic() >= due:
            due = clock.monotonic() + every
            try:
                last, trouble = sample(manager, last, clock), ""
            except ManagerError as err:
                if last is None:
                    raise
                trouble = str(err)
            _draw(screen, last, view, trouble)
        pressed = screen.key(KEY_WITHIN)
        if pressed == "q":
            return
        if pressed and last is not None:
            press(view, pressed)
            _draw(screen, last, view, trouble)


def _draw(screen: FullScreen, last: TopSample, view: TopView, trouble: str) -> None:
    columns, lines = shutil.get_terminal_size()
    shown = drawing(last, view, columns=columns, lines=lines, colour=True)
    if trouble:
        shown[0] = f"{RED}{f'no response: {trouble}'[:columns]}{PLAIN}"
    screen.draw(shown)


def press(view: TopView, key: str) -> None:
    """Change the view as a key requests; other keys change nothing."""
    names = list(SORTS)
    by_letter = {name[0]: name for name in names}
    if key == "s":
        view.sort = names[(names.index(view.sort) + 1) % len(names)]
    elif key == "a":
        view.shows_all = not view.shows_all
    elif key in by_letter:
        view.sort = by_letter[key]
    elif key in ("up", "down"):
        view.scrolled = max(0, view.scrolled + (1 if key == "down" else -1))


def sample(manager: ManagerClient, last: TopSample | None, clock: Clock) -> TopSample:
    """Read the manager's pages. Raises ManagerError."""
    system, now = manager.get("/controllers"), clock.monotonic()
    rates: dict[str, float] = {}
    if last is not None and now > last.at:
        before = {state["name"]: state for state in last.system["controllers"]}
        for state in system["controllers"]:
            earlier = before.get(state["name"])
            if earlier is not None and earlier["incarnation"] == state["incarnation"]:
                done = state["reconciled"] + state["failed"] - earlier["reconciled"] - earlier["failed"]
                rates[state["name"]] = done / (now - last.at)
    return TopSample(
        at=now, system=system, zones=manager.get("/zones")["zones"], brake=manager.get("/brake"), rates=rates
    )


def drawing(found: TopSample, view: TopView, *, columns: int, lines: int, colour: bool) -> list[str]:
    """Return the lines of the screen, none of them longer than `columns`, and at most `lines`."""
    states = found.system["controllers"]
    rows = [
        {**state, "rate": found.rates.get(state["name"], 0.0)}
        for state in states
        if view.shows_all or state["state"] not in GONE
    ]
    rows.sort(key=lambda row: (SORTS[view.sort](row), row["name"]))
    below = _zone_lines(found.zones)[: max(0, lines // 3)]
    room = max(1, lines - len(below) - 5)
    view.scrolled = min(view.scrolled, max(0, len(rows) - room))
    name_width = NARROW if columns < 110 else max(NARROW, columns)
    cells = table(TITLES, [_cells(row, name_width) for row in rows])
    shown = [cells[0], *cells[1 + view.scrolled :][:room]]
    plain = [*_head(found, view), "", *shown, *below]
    if not colour:
        return [line[:columns].rstrip() for line in plain]
    first = len(plain) - len(shown) - len(below)
    styles = {0: BOLD, first: BOLD} | {
        first + 1 + place: style for place, row in enumerate(rows[view.scrolled :][:room]) if (style := _style(row))
    }
    if found.brake["engaged"]:
        styles[1] = RED
    return [
        f"{styles[place]}{line[:columns]}{PLAIN}" if place in styles else line[:columns]
        for place, line in enumerate(plain)
    ]


def _head(found: TopSample, view: TopView) -> list[str]:
    system, brake = found.system, found.brake
    states = [state["state"] for state in system["controllers"]]
    counts = {state: states.count(state) for state in dict.fromkeys(states)}
    role = "leading" if system["leading"] else f"standby, {system['leader'] or 'nobody'} leads"
    actors, reconciled = system["actors"], number(round(sum(found.rates.values()), 1))
    mailboxes = sum(actor["mailbox"] for actor in actors)
    restarts = sum(actor["restarts"] for actor in actors)
    head = f"kcm {system['at'][11:19]}  {role}  {', '.join(f'{count} {state}' for state, count in counts.items())}"
    facts = f"{reconciled} reconciled/s  {len(actors)} actors  {mailboxes} messages  {restarts} restarts"
    if brake["engaged"]:
        facts = f"STORM BRAKE engaged {age(brake['engagedSeconds'])}, {brake['held']} writes held  {facts}"
    return [head, f"{facts}  sorted by {view.sort}"]


def _cells(row: Mapping[str, Any], name_width: int) -> tuple[str, ...]:
    name = row["name"].removesuffix("-controller")
    return (
        name if len(name) <= name_width else f"{name[: name_width - 1]}…",
        shown_state(row)[:20],
        str(row["queued"]),
        str(row["delayed"]),
        str(row["inWork"]),
        age(row["longestWaitingSeconds"]) if row["queued"] else "-",
        str(row["failuresInARow"] or "-"),
        number(round(row["rate"], 1)),
    )


def _style(row: Mapping[str, Any]) -> str:
    if row["state"] in ("Failed", "Restarting") or row["condition"] or row["failuresInARow"]:
        return RED
    return YELLOW if row["state"] in ("Paused", "Pausing", "Starting", "Stopping") else ""


def _zone_lines(zones: Sequence[Mapping[str, Any]]) -> list[str]:
    if not zones:
        return []
    rows = [
        (
            zone["name"],
            zone["state"],
            f"{zone['ready']}/{zone['nodes']}",
            str(zone["waiting"]),
            "paused" if zone["paused"] else "-" if zone["qps"] is None else f"{number(zone['qps'])}/s",
        )
        for zone in zones
    ]
    return ["", *table(("ZONE", "STATE", "READY", "WAITING", "EVICTIONS"), rows)]


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command's arguments, from which the completion of shells is made as well."""
    root = argparse.ArgumentParser(
        prog="run-kcm top",
        description="Show the controllers, queues and zones of a running manager, live. Keys: q ends, s sorts by "
        "the next column, a shows disabled controllers as well, arrows scroll.",
    )
    root.add_argument("--once", action="store_true", help="print one table, as without a terminal")
    root.add_argument("--all", action="store_true", help="show disabled and skipped controllers as well")
    root.add_argument("--sort", choices=tuple(SORTS), default="queued", help="order (default %(default)s)")
    root.add_argument(
        "--interval",
        type=_interval,
        default="1s",
        metavar="DURATION",
        help="time between two updates, at least 200ms (default %(default)s)",
    )
    add_manager_flags(root)
    return root


def _interval(text: str) -> float:
    try:
        seconds = parse_duration(text)
    except ValueError as err:
        raise argparse.ArgumentTypeError(str(err)) from err
    if seconds < KEY_WITHIN:
        raise argparse.ArgumentTypeError(f"must not be less than 200ms: {text}")
    return seconds
