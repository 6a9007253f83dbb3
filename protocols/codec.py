"""Encode messages to msgpack bytes, and decode them. The only module that imports msgpack.

On the wire a message is `[tag, field, field, …]` in the order of its fields; a nested message is an array of the same
form. Tags are stable, because later versions read the journals of earlier ones: a tag is never reused, and a new field
is added at the end, with a default.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import msgpack  # type: ignore[import-untyped]
from msgspec import NODEFAULT, Struct

from kcm.protocols.messages import calls, cloud, commands, discovery, eviction, journal, lifecycle, outcomes, rates
from kcm.protocols.messages import debug_pages as debugging
from kcm.protocols.messages import events as recording
from kcm.protocols.messages import watches as watching
from kcm.protocols.objects import OwnerRef

TAGS: tuple[tuple[int, type[Struct]], ...] = (
    (1, commands.Create),
    (2, commands.Update),
    (3, commands.Patch),
    (4, commands.Delete),
    (5, commands.DeleteCollection),
    (6, commands.Get),
    (7, commands.List),
    (8, commands.Submit),
    (9, commands.Fetch),
    (20, outcomes.Done),
    (21, outcomes.NotFound),
    (22, outcomes.AlreadyExists),
    (23, outcomes.Conflict),
    (24, outcomes.Forbidden),
    (25, outcomes.Invalid),
    (26, outcomes.Gone),
    (27, outcomes.Throttled),
    (28, outcomes.ServerFailure),
    (29, outcomes.Unknown),
    (30, outcomes.Refused),
    (31, outcomes.Settled),
    (32, outcomes.Raised),
    (40, watching.WatchEvent),
    (41, watching.Subscribe),
    (42, watching.Unsubscribe),
    (43, watching.Synced),
    (44, watching.Listed),
    (45, watching.Streamed),
    (46, watching.StreamEnded),
    (47, watching.Interest),
    (48, watching.WatchEvents),
    (50, discovery.ServedResource),
    (51, discovery.DiscoveryAnswer),
    (52, discovery.Discover),
    (53, discovery.ResourcesDiscovered),
    (54, discovery.RequestTables),
    (55, discovery.TablesChanged),
    (60, recording.Record),
    (80, lifecycle.Wake),
    (81, lifecycle.Ping),
    (82, lifecycle.Pong),
    (83, lifecycle.ActorFailed),
    (84, lifecycle.Attach),
    (85, lifecycle.Drain),
    (86, lifecycle.Drained),
    (87, lifecycle.LeaseHeld),
    (88, lifecycle.LeaseLost),
    (89, lifecycle.LeaderObserved),
    (90, lifecycle.Enable),
    (91, lifecycle.Disable),
    (92, lifecycle.Restart),
    (93, lifecycle.Pause),
    (94, lifecycle.Resume),
    (95, lifecycle.Describe),
    (96, lifecycle.Description),
    (97, lifecycle.Attached),
    (98, lifecycle.Restarted),
    (99, lifecycle.StartChild),
    (100, lifecycle.StopChild),
    (101, lifecycle.EnqueueKey),
    (102, debugging.ShowPage),
    (103, debugging.PageShown),
    (104, lifecycle.Compete),
    (105, lifecycle.Withdraw),
    (106, lifecycle.YieldGroup),
    (110, eviction.ZoneQueueReady),
    (111, eviction.SetEvictionRate),
    (112, eviction.EvictNode),
    (113, eviction.SpareNode),
    (114, eviction.StartOver),
    (115, eviction.NodeDue),
    (116, eviction.PauseEvictions),
    (117, eviction.ResumeEvictions),
    (118, eviction.SetZoneRate),
    (120, journal.Opened),
    (121, journal.MessageSent),
    (122, journal.MessageHandled),
    (123, journal.TurnLost),
    (130, cloud.InstanceExists),
    (131, cloud.InstanceIsShutDown),
    (132, cloud.ListRoutes),
    (133, cloud.CreateRoute),
    (134, cloud.DeleteRoute),
    (135, cloud.GetLoadBalancer),
    (136, cloud.EnsureLoadBalancer),
    (137, cloud.UpdateLoadBalancer),
    (138, cloud.DeleteLoadBalancer),
    (140, calls.Call),
    (150, rates.SetClientRate),
    (151, rates.EngageBrake),
    (152, rates.ReleaseBrake),
)

# Fields that contain messages or named tuples, with the functions that pack and unpack them.
_NESTED: dict[tuple[type, str], tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {}


class DecodeError(ValueError):
    """Bytes that are not a message of this version."""


class _Form:
    """The wire form of one message type, built once: the hot path is an attrgetter and one packb."""

    __slots__ = ("build", "fields", "get", "least", "nested", "tag", "type")

    def __init__(self, tag: int, message_type: type[Struct]) -> None:
        names, defaults = message_type.__struct_fields__, message_type.__struct_defaults__
        self.tag, self.type = tag, message_type
        self.build: Callable[..., Any] = message_type
        if len(message_type.__match_args__) < len(names):  # keyword-only
            self.build = lambda *values: message_type(**dict(zip(names, values, strict=False)))
        self.fields = len(names)
        self.least = len(names) - sum(default is not NODEFAULT for default in defaults)
        self.get: Callable[[Any], tuple[Any, ...]]
        if not names:
            self.get = lambda _message: ()
        elif len(names) == 1:
            only = attrgetter(names[0])
            self.get = lambda message: (only(message),)
        else:
            self.get = attrgetter(*names)
        self.nested = [
            (i, *_NESTED[message_type, name]) for i, name in enumerate(names) if (message_type, name) in _NESTED
        ]


def _to_wire(message: Any) -> list[Any]:
    form = _BY_TYPE.get(type(message))
    if form is None:
        form = _form_of_subclass(type(message))
    wire = [form.tag, *form.get(message)]
    for i, pack, _ in form.nested:
        wire[i + 1] = pack(wire[i + 1])
    return wire


def _form_of_subclass(kind: type) -> _Form:
    """Return the form of the message type that this class extends. Raises TypeError for other classes.

    A subclass only adds attributes that are not sent.
    """
    for base in kind.__mro__:
        if base in _BY_TYPE:
            return _BY_TYPE[base]
    raise TypeError(f"not a message type: {kind.__name__}")


def _from_wire(wire: Any) -> Any:
    """Build the message. wire: from msgpack; it is consumed."""
    if type(wire) is not list or not wire:
        raise DecodeError(f"a message is a non-empty array, got {type(wire).__name__}")
    tag = wire.pop(0)
    form = _BY_TAG.get(tag) if type(tag) is int else None
    if form is None:
        raise DecodeError(f"unknown message tag {tag!r}")
    if not form.least <= len(wire) <= form.fields:
        raise DecodeError(f"{form.type.__name__} has {form.least} to {form.fields} fields, got {len(wire)}")
    for i, _, unpack in form.nested:
        if i < len(wire):
            wire[i] = unpack(wire[i])
    return form.build(*wire)


def _owner_from_wire(wire: Any) -> OwnerRef | None:
    if wire is None:
        return None
    if len(wire) != 4:
        raise DecodeError(f"an owner reference has 4 fields, got {len(wire)}")
    return OwnerRef(*wire)


def _all_to_wire(messages: Sequence[Any]) -> list[Any]:
    return [_to_wire(message) for message in messages]


def _all_from_wire(wires: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(_from_wire(wire) for wire in wires)


def _as_tuples(value: Any) -> Any:
    """Convert lists to tuples, recursively: msgpack decodes arrays as lists."""
    return tuple(map(_as_tuples, value)) if type(value) is list else value


_NESTED.update(
    {
        (commands.Submit, "commands"): (_all_to_wire, _all_from_wire),
        (outcomes.Settled, "outcome"): (_to_wire, _from_wire),
        (outcomes.Raised, "kinds"): (lambda kinds: kinds, _as_tuples),
        (lifecycle.EnqueueKey, "key"): (lambda key: key, _as_tuples),
        (commands.Delete, "depends_on"): (lambda ids: ids, _as_tuples),
        (commands.DeleteCollection, "depends_on"): (lambda ids: ids, _as_tuples),
        (commands.Fetch, "query"): (lambda pairs: pairs, _as_tuples),
        (discovery.ServedResource, "verbs"): (lambda verbs: verbs, _as_tuples),
        (discovery.ResourcesDiscovered, "resources"): (_all_to_wire, _all_from_wire),
        (discovery.ResourcesDiscovered, "others"): (_all_to_wire, _all_from_wire),
        (discovery.TablesChanged, "resources"): (_all_to_wire, _all_from_wire),
        (discovery.TablesChanged, "served"): (_all_to_wire, _all_from_wire),
        (discovery.TablesChanged, "metadata_only"): (lambda ids: ids, _as_tuples),
        (watching.Subscribe, "interests"): (_all_to_wire, _all_from_wire),
        (watching.Subscribe, "within"): (lambda names: names, _as_tuples),
        (watching.WatchEvents, "events"): (_all_to_wire, _all_from_wire),
        (watching.WatchEvents, "matches"): (lambda matches: matches, _as_tuples),
        (watching.WatchEvent, "controller"): (lambda owner: owner, _owner_from_wire),
        (watching.WatchEvent, "previous_controller"): (lambda owner: owner, _owner_from_wire),
    }
)
for _field in watching.Interest.__struct_fields__:
    _NESTED[watching.Interest, _field] = (lambda value: value, _as_tuples)
_BY_TYPE = {message_type: _Form(tag, message_type) for tag, message_type in TAGS}
_BY_TAG = {form.tag: form for form in _BY_TYPE.values()}


def encode(message: Any) -> bytes:
    """Encode a message. Raises TypeError for other objects, and for a field value that msgpack cannot encode."""
    frame: bytes = msgpack.packb(_to_wire(message), use_bin_type=True)
    return frame


def encode_fields(message_type: type, *fields: Any) -> bytes:
    """Encode a message from the values of all its fields, without constructing it."""
    form = _BY_TYPE[message_type]
    if len(fields) != form.fields:
        raise TypeError(f"{message_type.__name__} has {form.fields} fields, got {len(fields)}")
    wire = [form.tag, *fields]
    for i, to_wire, _ in form.nested:
        wire[i + 1] = to_wire(wire[i + 1])
    frame: bytes = msgpack.packb(wire, use_bin_type=True)
    return frame


def pack(value: Any) -> bytes:
    """Encode a plain value: None, a number, text, bytes, or lists and maps of them. Tuples are decoded as lists.

    Raises TypeError, with the type, for other values, and ValueError for values that are too large or too deep.
    """
    try:
        packed: bytes = msgpack.packb(value, use_bin_type=True)
    except TypeError as err:
        raise TypeError(f"{_strange(value)} is no plain value: None, a number, text, bytes, a list or a map") from err
    except OverflowError as err:
        raise ValueError(f"a number of more than 64 bits: {err}") from err
    return packed


def _strange(value: Any) -> str:
    """Return the type of the first value that msgpack cannot encode, with its article."""
    if isinstance(value, dict):
        inner = [*value.keys(), *value.values()]
    elif isinstance(value, list | tuple):
        inner = list(value)
    else:
        return f"a {type(value).__qualname__}"
    for element in inner:
        try:
            msgpack.packb(element, use_bin_type=True)
        except TypeError:
            return _strange(element)
    return f"a {type(value).__qualname__}"


def unpack(packed: bytes) -> Any:
    """Decode the result of pack(). Raises DecodeError."""
    try:
        return msgpack.unpackb(packed, strict_map_key=False)
    except Exception as err:
        raise DecodeError(f"not msgpack: {err}") from err


_BUNDLE_TAG = _BY_TYPE[watching.WatchEvents].tag


def bundle(events: Sequence[bytes], matches: Sequence[int]) -> bytes:
    """Encode a WatchEvents from events that are encoded already: each event is encoded once for all its subscribers."""
    packer = msgpack.Packer(use_bin_type=True)
    head = packer.pack_array_header(3) + packer.pack(_BUNDLE_TAG) + packer.pack_array_header(len(events))
    frame: bytes = b"".join((head, *events, packer.pack(tuple(matches))))
    return frame


# Messages are frozen: a message without fields is always decoded to one object.
_FIELDLESS = {encode(form.type()): form.type() for form in _BY_TAG.values() if form.fields == 0}
_LONGEST_FIELDLESS = max(map(len, _FIELDLESS))


def decode(frame: bytes) -> Any:
    """Decode a message. Raises DecodeError, and no other exception, on any bytes that are not a message."""
    if len(frame) <= _LONGEST_FIELDLESS and (known := _FIELDLESS.get(frame)) is not None:
        return known
    return _unpacked(frame)


def _unpacked(frame: bytes) -> Any:
    try:
        wire = msgpack.unpackb(frame, strict_map_key=False)
    except Exception as err:
        raise DecodeError(f"not msgpack: {err}") from err
    try:
        return _from_wire(wire)
    except DecodeError:
        raise
    except (TypeError, ValueError, RecursionError) as err:  # recursion: messages within messages, hundreds deep
        raise DecodeError(f"malformed message: {err}") from err


class Decoder:
    """Decoder for the actors of one system, which decodes a frame only once if it is sent to several actors.

    They receive the same bytes object one after the other, and messages are immutable, so the last such message is
    cached. Thread-safe: the pair is read and replaced as one object; a race costs one more decoding.
    """

    __slots__ = ("_latest",)

    SENT_TO_MANY = (watching.WatchEvents, lifecycle.Ping)

    def __init__(self) -> None:
        self._latest: tuple[bytes, Any] = (b"", None)

    def decode(self, frame: bytes) -> Any:
        latest, message = self._latest
        if frame is latest:
            return message
        if len(frame) <= _LONGEST_FIELDLESS and (known := _FIELDLESS.get(frame)) is not None:
            return known
        message = _unpacked(frame)
        if type(message) in self.SENT_TO_MANY:
            self._latest = frame, message
        return message
