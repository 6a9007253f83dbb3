"""Profiles in the format of pprof, which `go tool pprof`, Pyroscope, Parca and speedscope read.

Source: https://github.com/google/pprof/blob/main/proto/profile.proto.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kcm.protocols.protobuf_wire import BYTES, VARINT, field_tag, varint


class SampleType(NamedTuple):
    """Meaning of one value of each sample, such as ("cpu", "nanoseconds")."""

    type: str
    unit: str


class StackFrame(NamedTuple):
    """Frame of a stack, or an item without source code, whose file is "" and whose lines are 0."""

    function: str
    file: str = ""
    first_line: int = 0  # of the function
    line: int = 0


class StackSample(NamedTuple):
    """Stack with its values."""

    stack: Sequence[StackFrame]  # the innermost frame first
    values: Sequence[int]  # one for each sample type
    labels: Mapping[str, str]


class Profile(NamedTuple):
    """Content of a profile.

    time: Unix time of its start, in seconds.
    duration: in seconds; 0.0 for a snapshot.
    period: value of the period type between two samples; 0 if nothing was sampled.
    """

    sample_types: Sequence[SampleType]
    samples: Iterable[StackSample]
    time: float
    duration: float = 0.0
    period_type: SampleType | None = None
    period: int = 0
    default_type: str = ""  # sample type that tools show first; "" for the last one
    comments: Sequence[str] = ()


def encoded(profile: Profile) -> bytes:
    """Encode a profile as a gzipped `perftools.profiles.Profile` message."""
    return gzip.compress(_Encoder().profile(profile), compresslevel=6, mtime=0)


class _Encoder:
    def __init__(self) -> None:
        self._strings = {"": 0}
        self._functions: dict[tuple[str, str, int], int] = {}
        self._locations: dict[StackFrame, int] = {}

    def profile(self, profile: Profile) -> bytes:
        parts = [_message(1, self._value_type(kind)) for kind in profile.sample_types]
        parts += [_message(2, self._sample(sample)) for sample in profile.samples]
        parts += [_message(4, self._location(frame, number)) for frame, number in self._locations.items()]
        parts += [_message(5, self._function(*key, number)) for key, number in self._functions.items()]
        parts += [_number(9, round(profile.time * 1e9)), _number(10, round(profile.duration * 1e9))]
        if profile.period_type is not None:
            parts += [_message(11, self._value_type(profile.period_type)), _number(12, profile.period)]
        parts += [_number(13, self._string(comment)) for comment in profile.comments]
        parts.append(_number(14, self._string(profile.default_type)))
        # The table is complete only now. Fields of a message may be in any order.
        parts += [_message(6, text.encode(errors="replace")) for text in self._strings]
        return b"".join(parts)

    def _string(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))

    def _value_type(self, kind: SampleType) -> bytes:
        return _number(1, self._string(kind.type)) + _number(2, self._string(kind.unit))

    def _sample(self, sample: StackSample) -> bytes:
        locations = b"".join(varint(self._location_of(frame)) for frame in sample.stack)
        parts = [_message(1, locations), _message(2, b"".join(map(varint, sample.values)))]
        for key, text in sorted(sample.labels.items()):
            parts.append(_message(3, _number(1, self._string(key)) + _number(2, self._string(text))))
        return b"".join(parts)

    def _location_of(self, frame: StackFrame) -> int:
        found = self._locations.get(frame)
        if found is None:
            found = self._locations[frame] = len(self._locations) + 1
            function = (frame.function, frame.file, frame.first_line)
            self._functions.setdefault(function, len(self._functions) + 1)
        return found

    def _location(self, frame: StackFrame, number: int) -> bytes:
        function = self._functions[frame.function, frame.file, frame.first_line]
        return _number(1, number) + _message(4, _number(1, function) + _number(2, frame.line))

    def _function(self, name: str, file: str, first_line: int, number: int) -> bytes:
        shown = self._string(name)
        named = _number(1, number) + _number(2, shown) + _number(3, shown)
        return named + _number(4, self._string(file)) + _number(5, first_line)


def _number(field: int, value: int) -> bytes:
    return field_tag(field, VARINT) + varint(value) if value else b""


def _message(field: int, content: bytes) -> bytes:
    return field_tag(field, BYTES) + varint(len(content)) + content
