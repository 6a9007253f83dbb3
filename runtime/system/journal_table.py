"""Table of a journal: the messages that concern an actor, an object or a time, one line each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from itertools import chain
from typing import Any

from msgspec import Struct

from kcm.protocols.codec import DecodeError, decode, unpack
from kcm.protocols.messages.calls import Call
from kcm.protocols.messages.commands import Create, Submit
from kcm.protocols.messages.events import Record
from kcm.protocols.messages.journal import MessageSent, Opened, TurnLost
from kcm.protocols.messages.outcomes import Done, Settled
from kcm.protocols.messages.watches import Listed, Streamed, StreamEnded, WatchEvent, WatchEvents
from kcm.protocols.objects import decode_object, key_of, make_key, namespace_of
from kcm.protocols.times import format_micro_time
from kcm.runtime.system.journal import Record as Written

LONGEST = 60  # maximum length of a text within a line
MOST_EVENTS = 5  # events of one message that are shown
NOTHING = "-"
HEADER = ("TIME", "NUMBER", "CAUSE", "FROM", "TO", "MESSAGE")


class Filter(Struct, frozen=True, kw_only=True):
    """Selection of messages.

    actor: shell pattern for the name of the sender or receiver.
    object: shell pattern for "namespace/name".
    since, until: Unix seconds.
    """

    actor: str = "*"
    object: str = "*"
    since: float = float("-inf")
    until: float = float("inf")

    def passes(self, record: MessageSent, message: Any) -> bool:
        if not self.since <= record.wall <= self.until:
            return False
        if not fnmatchcase(record.sender, self.actor) and not fnmatchcase(record.receiver, self.actor):
            return False
        return self.object == "*" or any(fnmatchcase(key, self.object) for key in keys_in(message))


def rows(records: Iterable[Written], wanted: Filter) -> Iterator[tuple[str, ...]]:
    """Yield a row for each selected message, each beginning of a run and each lost turn; columns as in HEADER."""
    offset = 0.0  # Unix seconds minus monotonic seconds
    for record in records:
        if isinstance(record, Opened | MessageSent):
            offset = record.wall - record.monotonic
        if isinstance(record, Opened) and record.part == 1:
            yield _remark(record.wall, f"run {record.session[:8]} of {record.version}")
        elif isinstance(record, TurnLost):
            yield _remark(record.monotonic + offset, "an actor hung: from here on, messages may be in a wrong order")
        elif isinstance(record, MessageSent):
            message = message_of(record)
            if wanted.passes(record, message):
                cause = str(record.cause) if record.cause else NOTHING
                when = format_micro_time(record.wall)
                yield (when, str(record.number), cause, record.sender, record.receiver, described(message))


def _remark(wall: float, text: str) -> tuple[str, ...]:
    return (format_micro_time(wall), NOTHING, NOTHING, NOTHING, NOTHING, text)


def aligned(lines: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Align the columns to the widest cells so far; the last column is not padded."""
    widths = [len(word) for word in HEADER[:-1]]
    for line in chain([HEADER], lines):
        for column, word in enumerate(line[:-1]):
            widths[column] = max(widths[column], len(word))
        cells = [word.ljust(width) for word, width in zip(line, widths, strict=False)]
        yield "  ".join([*cells, line[-1]]).rstrip()


def message_of(record: MessageSent) -> Any:
    """Decode a message; return None if the frame is lost or of another version."""
    try:
        return decode(record.frame)
    except DecodeError:
        return None


def keys_in(message: Any) -> list[str]:
    """Return the keys of the objects that a message refers to: "namespace/name", or "name"."""
    match message:
        case Submit(commands=commands, key=key):
            return [*([key] if key else []), *(name for command in commands for name in keys_in(command))]
        case Create(namespace=namespace, body=body, name=name):
            obj = _object(body)
            meta = obj.get("metadata") or {}
            return [make_key(namespace, name or meta.get("name") or f"{meta.get('generateName') or ''}*")]
        case Settled(outcome=Done(body=body)):
            obj = _object(body)
            return [key_of(obj)] if namespace_of(obj) or key_of(obj) else []
        case Record(namespace=namespace, name=name):
            return [make_key(namespace, name)]
        case WatchEvents(events=events):
            return [event.key for event in events]
        case _:
            return [value for name in ("key", "node") if isinstance(value := getattr(message, name, None), str)]


def described(message: Any, *, longest: int = LONGEST) -> str:
    """Return a short description of a message. longest: maximum length of each text in it, in characters."""
    match message:
        case None:
            return "(cannot be read)"
        case WatchEvents(events=events):
            shown = ", ".join(map(_event_text, events[:MOST_EVENTS]))
            return f"WatchEvents {shown}" + (f" and {len(events) - MOST_EVENTS} more" * (len(events) > MOST_EVENTS))
        case WatchEvent():
            return f"WatchEvent {_event_text(message)}"
        case Submit(ticket=ticket, commands=commands, queue=queue, key=key):
            task = " ".join(filter(None, (" for" if queue else "", queue, key)))
            return f"Submit {ticket}{task}: " + ", ".join(map(command_text, commands))
        case Settled(ticket=ticket, index=index, outcome=outcome):
            return f"Settled {ticket}.{index}: {outcome_text(outcome, longest=longest)}"
        case Streamed(stream=stream, lines=lines):
            return f"Streamed {stream}: {len(lines.splitlines())} lines, {len(lines)} bytes"
        case Listed(stream=stream, status=status, body=body) | StreamEnded(stream=stream, status=status, body=body):
            return f"{type_name(message)} {stream}: {status}, {len(body)} bytes"
        case Record(type=type, reason=reason, message=text):
            return f"Record {keys_in(message)[0]} {type} {reason}: {short(text, longest)}"
        case _:
            fields = [f"{name}={short(str(getattr(message, name)), longest)}" for name in message.__struct_fields__]
            return " ".join([type_name(message), *fields])


def _event_text(event: WatchEvent) -> str:
    return f"{event.type} {event.resource} {event.key} at {event.resource_version}"


def command_text(command: Any) -> str:
    if isinstance(command, Call):
        return f"Call {command.function}{short(_arguments_text(command))} {command.key}".rstrip()
    subresource = getattr(command, "subresource", "")
    keys = keys_in(command) or [getattr(command, "namespace", "")]
    return f"{type_name(command)} {command.resource} {keys[0]}{'/' if subresource else ''}{subresource}"


def outcome_text(outcome: Any, *, longest: int = LONGEST) -> str:
    if isinstance(outcome, Done):
        obj = _object(outcome.body)
        if not obj and outcome.body:
            return f"Done {short(_value_text(outcome.body), longest)}"
        version = (obj.get("metadata") or {}).get("resourceVersion", "")
        return f"Done {obj.get('kind', '')} {key_of(obj)} at {version}"
    return f"{type_name(outcome)} {short(outcome.message, longest)}"


def type_name(message: Any) -> str:
    return type(message).__name__


def short(text: str, longest: int = LONGEST) -> str:
    text = " ".join(text.split())
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _object(body: bytes) -> dict[str, Any]:
    try:
        decoded: Any = decode_object(body)
    except ValueError:
        return {}
    return decoded if isinstance(decoded, dict) else {}  # a call returns other values as well


# Calls: their values are packed by the codec.


def _arguments_text(call: Call) -> str:
    try:
        by_position, by_name = unpack(call.arguments)
    except (DecodeError, ValueError, TypeError):
        return "(…)"
    return f"({', '.join([*map(repr, by_position), *(f'{name}={value!r}' for name, value in by_name.items())])})"


def _value_text(body: bytes) -> str:
    # A call's result is packed; that of a cloud call is JSON, which unpack() reads as several values and rejects.
    try:
        return repr(unpack(body))
    except DecodeError:
        return body.decode("utf-8", "replace")


def as_json(value: Any) -> Any:
    """Convert a packed value to JSON types: bytes, and keys other than strings, to their repr()."""
    if isinstance(value, dict):
        return {key if isinstance(key, str) else repr(key): as_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_json(item) for item in value]
    return repr(value) if isinstance(value, bytes) else value
