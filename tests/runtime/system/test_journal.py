"""A journal on disk: round trip, rotation, damaged files, and causes of messages."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kcm.protocols.codec import decode, encode
from kcm.protocols.messages.journal import MessageHandled, MessageSent, Opened, TurnLost
from kcm.protocols.messages.lifecycle import Drain, Pause, Ping, Resume
from kcm.runtime.scheduling.clock import SystemClock
from kcm.runtime.simulation.clock import START, VirtualClock
from kcm.runtime.simulation.world import World
from kcm.runtime.system.actor import Actor, ActorSpec
from kcm.runtime.system.actor_system import ActorSystem
from kcm.runtime.system.journal import MAGIC, JournalError, JournalWriter, RecordedRun, numbered_path, read_journal

ROOT = Path(__file__).parents[3]
RUN = RecordedRun(version="1.2.3", seed=7, arguments=["--v=2"], controllers=["a-controller"])
FRAME = encode(Ping(1))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture
def write(path: Path) -> Callable[..., JournalWriter]:
    def make(**changes: Any) -> JournalWriter:
        settings = {"run": RUN, "clock": VirtualClock(), "largest": 1_000_000, "files": 3} | changes
        return JournalWriter(path, **settings)

    return make


def read(path: Path) -> tuple[list[Any], list[str]]:
    reader = read_journal(path)
    return list(reader), reader.troubles


def sent_messages(path: Path) -> list[MessageSent]:
    return [record for record in read(path)[0] if isinstance(record, MessageSent)]


def test_records_are_read_in_the_order_written(path: Path, write: Callable[..., JournalWriter]) -> None:
    journal = write()
    frame = journal.sent("informer", "controller", 2, FRAME, None)
    assert frame == FRAME
    assert decode(frame) == Ping(1)
    with journal.handling(frame, last=True):
        journal.sent("controller", "dispatcher", 1, encode(Drain()), None)
    journal.sent("clock", "controller", 2, encode(Drain()), None)
    journal.sent("dispatcher", "controller", 2, encode(Drain()), 1)
    journal.close()
    records, troubles = read(path)
    assert troubles == []
    session = records[0].session
    assert records == [
        Opened(session, 1, START, 0.0, "1.2.3", 7, ["--v=2"], ["a-controller"]),
        MessageSent(1, START, 0.0, "informer", "controller", 2, 0, FRAME),
        MessageHandled(1, 0.0, True),
        MessageSent(2, START, 0.0, "controller", "dispatcher", 1, 1, encode(Drain())),
        MessageSent(3, START, 0.0, "clock", "controller", 2, 0, encode(Drain())),
        MessageSent(4, START, 0.0, "dispatcher", "controller", 2, 1, encode(Drain())),
    ]


def test_journal_is_readable_by_its_owner_only(path: Path, write: Callable[..., JournalWriter]) -> None:
    journal = write(largest=1)
    journal.sent("a", "b", 1, FRAME, None)
    journal.close()
    assert [stat.S_IMODE(file.stat().st_mode) for file in (path, numbered_path(path, 1))] == [0o600, 0o600]


def test_frame_with_several_receivers_is_written_once_per_file(path: Path, write: Callable[..., JournalWriter]) -> None:
    frame = encode(Pause("x" * 500))
    journal = write(largest=1500)
    for number in range(10):
        journal.sent("informer", f"controller-{number}", 1, frame, None)
    journal.close()
    assert [record.frame for record in sent_messages(path)] == [frame] * 10
    assert path.read_bytes().count(b"x" * 500) == 1
    assert not numbered_path(path, 2).exists()


def test_rotation_deletes_the_oldest_file(path: Path, write: Callable[..., JournalWriter]) -> None:
    journal = write(largest=400, files=3)
    for number in range(60):
        journal.sent("a", "b", 1, encode(Ping(number)), None)
    journal.close()
    assert sorted(file.name for file in path.parent.iterdir()) == ["journal", "journal.1", "journal.2"]
    numbers = [record.number for record in sent_messages(path)]
    assert numbers == list(range(numbers[0], 61))
    assert numbers[0] > 1
    parts = [record.part for record in read(path)[0] if isinstance(record, Opened)]
    assert parts == list(range(parts[0], parts[0] + 3))


def test_new_run_keeps_the_journal_of_the_previous_run(path: Path, write: Callable[..., JournalWriter]) -> None:
    for _ in range(2):
        journal = write()
        journal.sent("a", "b", 1, FRAME, None)
        journal.close()
    sessions = [record.session for record in read(path)[0] if isinstance(record, Opened)]
    assert len(set(sessions)) == 2


def test_truncated_journal_returns_the_complete_records(path: Path, write: Callable[..., JournalWriter]) -> None:
    journal = write()
    for number in range(3):
        journal.sent("a", "b", 1, encode(Ping(number)), None)
    journal.close()
    whole = path.read_bytes()
    records, _ = read(path)
    ends = []
    for length in range(len(MAGIC), len(whole)):
        path.write_bytes(whole[:length])
        kept, troubles = read(path)
        assert kept == records[: len(kept)]
        assert len(troubles) <= 1
        ends += [length] if not troubles else []
    assert len(ends) == len(records), "a cut between two records is no damage, any other is"


def test_damaged_record_is_skipped_and_reported(path: Path, write: Callable[..., JournalWriter]) -> None:
    journal = write()
    for number in range(3):
        journal.sent("a", "b", 1, encode(Pause(f"controller {number}")), None)
    journal.close()
    path.write_bytes(path.read_bytes().replace(b"controller 1", b"controller X"))
    records, troubles = read(path)
    assert [record.number for record in records if isinstance(record, MessageSent)] == [1, 3]
    assert len(troubles) == 1
    assert "is damaged and left out" in troubles[0]


@pytest.mark.parametrize(
    "content, error",
    [(None, "there is no journal"), (b"", "is no journal"), (b"\x7fELF", "is no journal of this version")],
)
def test_file_that_is_not_a_journal_is_an_error(path: Path, content: bytes | None, error: str) -> None:
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(JournalError, match=error):
        read(path)


def test_unwritable_directory_is_an_error(path: Path) -> None:
    with pytest.raises(JournalError, match="No such file or directory"):
        JournalWriter(path / "deeper", run=RUN, clock=VirtualClock(), largest=1, files=1)


FULL = """
import resource, sys
from pathlib import Path
from kcm.runtime.scheduling.clock import SystemClock
from kcm.runtime.system.journal import JournalWriter, RecordedRun
journal = JournalWriter(
    Path(sys.argv[1]), run=RecordedRun(version="", seed=0, arguments=[], controllers=[]), clock=SystemClock(),
    largest=1_000_000, files=3, ended=lambda why: print("ended", why),
)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
for number in range(500):
    assert journal.sent("a", "b", 1, b"%04d" % number * 250, None)
print(journal.trouble)
journal.close()
"""


def test_full_disk_ends_only_the_journal(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path)], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    why = f"the journal {path} ends here: File too large"
    assert (done.returncode, done.stderr, done.stdout.splitlines()) == (0, "", [f"ended {why}", why])
    records, troubles = read(path)
    assert 200 < len(records) < 500
    assert len(troubles) <= 1


def test_failed_last_write_is_reported(path: Path, write: Callable[..., JournalWriter]) -> None:
    whys: list[str] = []
    journal = write(ended=whys.append)
    assert journal._file is not None
    os.dup2(os.open("/dev/full", os.O_WRONLY), journal._file.fileno())
    journal.sent("a", "b", 1, FRAME, None)
    journal.close()
    journal.close()
    assert whys == [f"the journal {path} ends here: No space left on device"]


@pytest.mark.parametrize("number", [0, 2])
@pytest.mark.parametrize("content", [b"my diary\n", b"kcm", b"\0" * 100])
def test_other_file_with_the_name_of_a_journal_is_rejected_and_unchanged(
    path: Path, write: Callable[..., JournalWriter], number: int, content: bytes
) -> None:
    write().close()
    file = numbered_path(path, number)
    file.write_bytes(content)
    before = {file: file.read_bytes() for file in path.parent.iterdir()}
    with pytest.raises(JournalError, match=f"{file} is no journal: it would be renamed, and deleted one day"):
        write()
    assert {file: file.read_bytes() for file in path.parent.iterdir()} == before


def test_file_that_appears_at_a_rotated_name_ends_the_journal_and_is_kept(
    path: Path, write: Callable[..., JournalWriter]
) -> None:
    whys: list[str] = []
    journal = write(largest=200, files=2, ended=whys.append)
    numbered_path(path, 1).write_text("my diary")
    for number in range(20):
        journal.sent("a", "b", 1, encode(Ping(number)), None)
    journal.close()
    assert numbered_path(path, 1).read_text() == "my diary"
    assert len(whys) == 1
    assert f"{path}.1 is no journal" in whys[0]


def test_empty_file_is_overwritten(path: Path, write: Callable[..., JournalWriter]) -> None:
    path.touch()
    write().close()
    assert path.read_bytes().startswith(MAGIC)


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("elsewhere")])
def test_path_that_is_not_a_regular_file_is_rejected(
    path: Path, write: Callable[..., JournalWriter], make: Callable[[Path], None]
) -> None:
    make(path)
    with pytest.raises(JournalError, match="it is not a regular file"):
        write()


def test_second_run_cannot_write_the_same_journal(path: Path, write: Callable[..., JournalWriter]) -> None:
    first = write()
    with pytest.raises(JournalError, match=f"cannot write the journal {path}: another process writes it"):
        write()
    first.close()
    write().close()


class Relay(Actor):
    """Sends Resume to `to` for every Pause. After a Drain it sends itself a Pause by an alarm."""

    def __init__(self, context: Any, *, to: str) -> None:
        super().__init__(context)
        self._to = to

    def receive(self, message: Any) -> None:
        if isinstance(message, Pause):
            self.tell(self._to, Resume(message.controller))


def test_cause_of_a_message_is_the_message_whose_handler_sent_it(
    path: Path, write: Callable[..., JournalWriter], log: Any
) -> None:
    world = World(log=log)
    system = world.system()
    system.journal = journal = write(clock=world.clock)
    system.spawn(ActorSpec(name="second", build=partial(Relay, to="nobody")))
    system.spawn(ActorSpec(name="first", build=partial(Relay, to="second")))
    system.tell("first", Pause("x"))
    system.tell("first", Pause("y"))
    world.run_for(1)
    journal.close()
    by_number = {record.number: record for record in sent_messages(path)}
    replies = [record for record in by_number.values() if record.receiver == "second"]
    assert [(decode(record.frame), decode(by_number[record.cause].frame)) for record in replies] == [
        (Resume("x"), Pause("x")),
        (Resume("y"), Pause("y")),
    ]
    assert [by_number[number].cause for number in (1, 2)] == [0, 0]
    handled = [record for record in read(path)[0] if isinstance(record, MessageHandled)]
    assert sorted(record.number for record in handled) == sorted(by_number)
    assert [record.last for record in handled if by_number[record.number].receiver == "first"] == [False, True]


class RespondingActor(Actor):
    def receive(self, message: Any) -> Any:
        return encode(message)


def test_ask_from_outside_is_recorded(path: Path, write: Callable[..., JournalWriter], log: Any) -> None:
    clock = SystemClock()
    journal = write(clock=clock)
    system = ActorSystem(clock=clock, log=log)
    system.journal = journal
    system.spawn(ActorSpec(name="actor", build=RespondingActor))
    assert system.ask("actor", Pause("x"), timeout=20) == Pause("x")
    assert system.stop("actor", timeout=20)
    journal.close()
    clock.close()
    assert [
        (record.sender, record.receiver, record.incarnation, decode(record.frame)) for record in sent_messages(path)
    ] == [("outside", "actor", 1, Pause("x"))]


def test_journal_records_that_a_hung_actor_lost_its_turn(path: Path, write: Callable[..., JournalWriter]) -> None:
    journal = write()
    hung = journal.handling(journal.sent("a", "b", 1, FRAME, None), last=True)
    hung.__enter__()
    order: list[int] = []  # of the frames, in which the threads handle them

    def another() -> None:
        frame = journal.sent("a", "c", 1, FRAME, None)
        with journal.handling(frame, last=True):
            order.append(journal.current())

    threads = [threading.Thread(target=another) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(order) == [2, 3]
    hung.__exit__(None, None, None)
    with journal.handling(FRAME, last=True):
        journal.close()
    written = read(path)[0]
    assert [record.number for record in written if isinstance(record, MessageHandled)] == [1, *order, 0]
    assert [type(record) for record in written if not isinstance(record, Opened | MessageSent)] == [
        MessageHandled,
        TurnLost,
        MessageHandled,
        MessageHandled,
        MessageHandled,
    ]
