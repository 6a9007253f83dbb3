"""Every message survives encoding and decoding, tags are stable, and invalid bytes raise DecodeError only."""

from __future__ import annotations

import types
import typing
from typing import Any

import msgpack  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import NODEFAULT, Struct, structs

from kcm.protocols import codec
from kcm.protocols.codec import DecodeError, Decoder, as_message, decode, encode
from kcm.protocols.messages import calls, cloud, commands, discovery, eviction, journal, lifecycle, outcomes, rates
from kcm.protocols.messages import debug_pages as debugging
from kcm.protocols.messages import events as recording
from kcm.protocols.messages import watches as watching
from kcm.protocols.objects import OwnerRef

# Newer versions must read journals of older ones, so lines may be added here, but not changed.
EXPECTED_TAGS = {
    1: "Create",
    2: "Update",
    3: "Patch",
    4: "Delete",
    5: "DeleteCollection",
    6: "Get",
    7: "List",
    8: "Submit",
    9: "Fetch",
    20: "Done",
    21: "NotFound",
    22: "AlreadyExists",
    23: "Conflict",
    24: "Forbidden",
    25: "Invalid",
    26: "Gone",
    27: "Throttled",
    28: "ServerFailure",
    29: "Unknown",
    30: "Refused",
    31: "Settled",
    32: "Raised",
    40: "WatchEvent",
    41: "Subscribe",
    42: "Unsubscribe",
    43: "Synced",
    44: "Listed",
    45: "Streamed",
    46: "StreamEnded",
    47: "Interest",
    48: "WatchEvents",
    50: "ServedResource",
    51: "DiscoveryAnswer",
    52: "Discover",
    53: "ResourcesDiscovered",
    54: "RequestTables",
    55: "TablesChanged",
    60: "Record",
    80: "Wake",
    81: "Ping",
    82: "Pong",
    83: "ActorFailed",
    84: "Attach",
    85: "Drain",
    86: "Drained",
    87: "LeaseHeld",
    88: "LeaseLost",
    89: "LeaderObserved",
    90: "Enable",
    91: "Disable",
    92: "Restart",
    93: "Pause",
    94: "Resume",
    95: "Describe",
    96: "Description",
    97: "Attached",
    98: "Restarted",
    99: "StartChild",
    100: "StopChild",
    101: "EnqueueKey",
    102: "ShowPage",
    103: "PageShown",
    104: "Compete",
    105: "Withdraw",
    106: "YieldGroup",
    110: "ZoneQueueReady",
    111: "SetEvictionRate",
    112: "EvictNode",
    113: "SpareNode",
    114: "StartOver",
    115: "NodeDue",
    116: "PauseEvictions",
    117: "ResumeEvictions",
    118: "SetZoneRate",
    120: "Opened",
    121: "MessageSent",
    122: "MessageHandled",
    123: "TurnLost",
    130: "InstanceExists",
    131: "InstanceIsShutDown",
    132: "ListRoutes",
    133: "CreateRoute",
    134: "DeleteRoute",
    135: "GetLoadBalancer",
    136: "EnsureLoadBalancer",
    137: "UpdateLoadBalancer",
    138: "DeleteLoadBalancer",
    140: "Call",
    150: "SetClientRate",
    151: "EngageBrake",
    152: "ReleaseBrake",
}

MESSAGE_TYPES: list[type] = [*codec.TYPES.values()]


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """Return a strategy of values for a field with this annotation."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return st.one_of([values_of(argument) for argument in arguments])
    if origin is tuple and arguments[1:] != (...,):
        return st.tuples(*map(values_of, arguments))
    if origin is tuple:
        return st.lists(values_of(arguments[0]), max_size=3).map(tuple)
    if origin is list:
        return st.lists(values_of(arguments[0]), max_size=3)
    if origin is dict:
        return st.dictionaries(values_of(arguments[0]), values_of(arguments[1]), max_size=3)
    if hint is OwnerRef:
        return st.builds(OwnerRef, *[st.text(max_size=5)] * 4)
    if isinstance(hint, type) and issubclass(hint, Struct):
        return messages_of(typing.cast("type", hint))
    simple: dict[Any, st.SearchStrategy[Any]] = {
        str: st.text(max_size=10),
        bytes: st.binary(max_size=10),
        bool: st.booleans(),
        int: st.integers(-(2**63), 2**64 - 1),
        float: st.floats(allow_nan=False),
        type(None): st.none(),
    }
    return simple[hint]


def messages_of(message_type: type) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(message_type)
    return st.builds(
        message_type, **{field.name: values_of(hints[field.name]) for field in structs.fields(message_type)}
    )


def sample_of(message_type: type) -> Any:
    """Return a message of the type with a value in every field, also in fields with defaults."""
    hints = typing.get_type_hints(message_type)
    return message_type(**{field.name: sample_value(hints[field.name]) for field in structs.fields(message_type)})


def sample_value(hint: Any) -> Any:
    """Return a value for a field with this annotation. Unions have a value of their first type."""
    plain = {str: "s", bytes: b"b", bool: True, int: 7, float: 1.5, OwnerRef: OwnerRef("v1", "Pod", "p", "u")}
    origin, arguments = typing.get_origin(hint), [each for each in typing.get_args(hint) if each is not ...]
    if hint in plain:
        return plain[hint]
    if origin in (typing.Union, types.UnionType):
        return sample_value(arguments[0])
    if origin is dict:
        return {sample_value(arguments[0]): sample_value(arguments[1])}
    if origin in (tuple, list):
        return origin(map(sample_value, arguments))
    return sample_of(hint)


def required_fields(message_type: type) -> int:
    return sum(
        field.default is NODEFAULT and field.default_factory is NODEFAULT for field in structs.fields(message_type)
    )


def test_tags_are_what_they_always_were() -> None:
    assert {tag: message_type.__name__ for tag, message_type in codec.TYPES.items()} == EXPECTED_TAGS


def test_every_message_has_a_tag() -> None:
    defined = {
        value
        for module in (
            calls,
            cloud,
            commands,
            debugging,
            discovery,
            eviction,
            journal,
            lifecycle,
            outcomes,
            rates,
            recording,
            watching,
        )
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Struct) and value.__module__ == module.__name__
    }
    assert defined == set(MESSAGE_TYPES)


@pytest.mark.parametrize("message_type", MESSAGE_TYPES)
def test_a_message_is_a_frozen_value_without_a_dict(message_type: Any) -> None:
    assert message_type.__struct_config__.frozen
    assert not hasattr(sample_of(message_type), "__dict__")


@pytest.mark.parametrize("message_type", MESSAGE_TYPES)
def test_a_message_comes_back_as_it_was_sent(message_type: type) -> None:
    @settings(max_examples=20)  # for each type
    @given(messages_of(message_type))
    def round_trip(message: Any) -> None:
        received = decode(encode(message))
        assert type(received) is message_type
        assert received == message
        for field in structs.fields(message_type):
            with pytest.raises(AttributeError):
                setattr(received, field.name, None)

    round_trip()


@pytest.mark.parametrize("message_type", MESSAGE_TYPES)
def test_on_the_wire_a_message_is_its_tag_and_its_fields_in_order(message_type: type) -> None:
    wire = msgpack.unpackb(encode(sample_of(message_type)))
    assert EXPECTED_TAGS[wire[0]] == message_type.__name__
    assert len(wire) == 1 + len(structs.fields(message_type))


def test_an_owner_reference_comes_back_as_one() -> None:
    owner = OwnerRef("apps/v1", "ReplicaSet", "web", "u1")
    event = watching.WatchEvent("ADDED", "v1/pods", "n/p", "u", "5", b"{}", owner, previous_controller=None)
    received = decode(encode(event))
    assert isinstance(received.controller, OwnerRef)
    assert received.controller.kind == "ReplicaSet"
    assert received.previous_controller is None


@given(st.lists(messages_of(watching.WatchEvent), max_size=20), st.integers(1, 2**63 - 1))
def test_a_bundle_of_encoded_events_is_the_message_of_these_events(events: list[Any], matches: int) -> None:
    message = watching.WatchEvents(tuple(events), (matches,) * len(events))
    assert codec.bundle([encode(event) for event in events], message.matches) == encode(message)


def test_a_subscription_of_an_older_version_is_interested_in_everything() -> None:
    assert decode(msgpack.packb([41, "controller:one"])) == watching.Subscribe("controller:one", (watching.EVERYTHING,))


@pytest.mark.parametrize(
    "message_type", [each for each in MESSAGE_TYPES if required_fields(each) < len(structs.fields(each))]
)
def test_a_frame_of_an_older_version_lacks_the_newer_fields_and_gets_their_defaults(message_type: type) -> None:
    sample = sample_of(message_type)
    required = required_fields(message_type)
    wire = msgpack.unpackb(encode(sample))
    received = decode(msgpack.packb(wire[: 1 + required]))
    for position, field in enumerate(structs.fields(message_type)):
        expected = getattr(sample, field.name) if position < required else field.default
        assert getattr(received, field.name) == expected


@pytest.mark.parametrize("message_type", MESSAGE_TYPES)
def test_too_many_and_too_few_fields_are_refused(message_type: type) -> None:
    wire = msgpack.unpackb(encode(sample_of(message_type)))
    with pytest.raises(DecodeError, match="at most length"):
        decode(msgpack.packb([*wire, None]))
    required = required_fields(message_type)
    if required:
        with pytest.raises(DecodeError, match="at least length"):
            decode(msgpack.packb(wire[:required]))


@pytest.mark.parametrize(
    "wire",
    [0, 10, 59, 999, 2**40, -1, "Create", None, 1.0, b"\x01", [1], {}],
)
def test_an_unknown_tag_is_refused(wire: object) -> None:
    with pytest.raises(DecodeError, match="at `\\$\\[0\\]`"):
        decode(msgpack.packb([wire, "x"]))


@pytest.mark.parametrize(
    "frame", [b"", b"\xc1", b"\x91", b"\x90", b"\xc0", b"\x01", b"\x80", b"\xa1\xff", b"\x93\x01\xa1a"]
)
def test_invalid_frame_is_refused(frame: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(frame)


@pytest.mark.parametrize(
    "wire",
    [
        [8, "sender", 1, "client", 1, 5],  # commands that are no list
        [8, "sender", 1, "client", 1, [5]],
        [8, "sender", 1, "client", 1, [[]]],
        [8, "sender", 1, "client", 1, [[99]]],
        [31, 1, 0, None],
        [31, 1, 0, [20]],  # Done without its body
        [40, "ADDED", "v1/pods", "n/p", "u", "1", b"", ["v1", "Pod"]],  # half an owner reference
        [40, "ADDED", "v1/pods", "n/p", "u", "1", b"", 5],
    ],
)
def test_a_malformed_part_of_a_message_is_refused(wire: object) -> None:
    with pytest.raises(DecodeError):
        decode(msgpack.packb(wire))


def test_messages_nested_hundreds_deep_are_refused() -> None:
    wire: list[Any] = [8, "s", 1, "c", 1, []]
    for _ in range(400):
        wire = [8, "s", 1, "c", 1, [wire]]
    with pytest.raises(DecodeError):
        decode(msgpack.packb(wire))


def message_or_refusal(frame: bytes) -> Any:
    """Return the type of the decoded message, or DecodeError. Other exceptions propagate."""
    try:
        return type(decode(frame))
    except DecodeError:
        return DecodeError


@given(st.binary(max_size=60))
def test_no_bytes_raise_anything_but_a_decode_error(frame: bytes) -> None:
    assert message_or_refusal(frame) in [*MESSAGE_TYPES, DecodeError]


WIRE_LEAF = st.one_of(
    st.sampled_from(sorted(EXPECTED_TAGS)), st.integers(-5, 300), st.text(max_size=3), st.binary(max_size=3), st.none()
)
WIRE_VALUES = st.recursive(WIRE_LEAF, lambda inner: st.lists(inner, max_size=4), max_leaves=10)


@given(st.sampled_from(sorted(EXPECTED_TAGS)), st.lists(WIRE_VALUES, max_size=12))
def test_no_array_raises_anything_but_a_decode_error(tag: int, fields: list[Any]) -> None:
    outcome = message_or_refusal(msgpack.packb([tag, *fields]))
    assert outcome is DecodeError or outcome.__name__ == EXPECTED_TAGS[tag]


@given(st.integers(0, 200), st.integers(0, 255))
def test_a_damaged_frame_raises_nothing_but_a_decode_error(position: int, byte: int) -> None:
    batch = (commands.Create("v1/pods", "n", b"{}"), commands.Get("v1/pods", "n/p"))
    frame = bytearray(encode(commands.Submit("s", 1, "c", 2, batch)))
    frame[position % len(frame)] = byte
    assert message_or_refusal(bytes(frame)) in [*MESSAGE_TYPES, DecodeError]


@pytest.mark.parametrize("value", [None, 5, "Wake", object(), {"tag": 80}, lifecycle.Wake])
def test_value_that_is_not_a_message_cannot_be_encoded(value: object) -> None:
    with pytest.raises(TypeError, match="not a message type"):
        encode(value)


def test_message_with_unsupported_value_cannot_be_encoded() -> None:
    with pytest.raises(TypeError):
        encode(lifecycle.Drained(typing.cast("str", object())))


def test_part_of_another_type_is_refused() -> None:
    frame = encode(commands.Submit("s", 1, "c", 1, (typing.cast("commands.Get", lifecycle.Drained("a")),)))
    with pytest.raises(DecodeError, match="Invalid value 86"):
        decode(frame)


def test_a_decoder_decodes_a_frame_that_is_sent_to_many_once() -> None:
    event = watching.WatchEvent("ADDED", "v1/pods", "n/p", "u", "5", b"{}")
    decoder, frame = Decoder(), encode(watching.WatchEvents((event,), (1,)))
    first = decoder.decode(frame)
    assert first == decode(frame)
    synced = encode(watching.Synced("v1/pods"))
    assert decoder.decode(synced) is not decoder.decode(synced)
    assert decoder.decode(frame) is first
    assert decoder.decode(bytes(bytearray(frame))) is not first


def test_attributes_of_a_subclass_are_not_sent() -> None:
    class Watched(commands.Get, frozen=True, kw_only=True):
        seen: object

    get = Watched("v1/pods", "n/p", seen=object())
    assert as_message(get) == commands.Get("v1/pods", "n/p")
    assert encode(get) == encode(commands.Get("v1/pods", "n/p"))
