"""Formats of a log line: klog's text, or JSON with the keys of Kubernetes' JSON logs."""

from __future__ import annotations

import datetime
import json
import traceback
from collections.abc import Mapping
from typing import Any

import orjson
from msgspec import Struct
from msgspec.structs import asdict

SEVERITIES = {"debug": "I", "info": "I", "warning": "W", "error": "E", "critical": "F"}
DEBUG_VERBOSITY = 4  # the verbosity of debug lines, Kubernetes' convention for V(4)
KEYS = {"error": "err"}  # facts with another key in lines, klog's


class LocalTime:
    """Formats Unix seconds as local time, "1121 04:23:21.123456".

    Caches the last second, because lines come in bursts.
    """

    def __init__(self) -> None:
        self._kept = (-1, "")

    def __call__(self, seconds: float) -> str:
        whole, micros = divmod(round(seconds * 1e6), 1_000_000)
        second, text = self._kept
        if second != whole:
            text = datetime.datetime.fromtimestamp(whole, tz=datetime.UTC).astimezone().strftime("%m%d %H:%M:%S")
            self._kept = (whole, text)
        return f"{text}.{micros:06d}"


class TextLines:
    """Text format of klog, `I1121 04:23:21.123456   12345 source] "message" key="value" count=2`.

    Multiline values are indented. The fact `error` has the key `err`. Like klog, it omits the verbosity `v` of a line,
    which only JSON contains. A plain message has neither quotes nor facts, as those of klog's printf functions.
    """

    has_caller = False  # klog's file name; the source of a line is in its place

    def __init__(self, *, pid: int) -> None:
        self._pid, self._time = f"{pid:7d}", LocalTime()

    def __call__(
        self,
        level: str,
        seconds: float,
        source: str,
        message: str,
        facts: Mapping[str, Any],
        v: int = 0,  # noqa: ARG002 - as JsonLines
        *,
        caller: str = "",  # noqa: ARG002 - as JsonLines
        plain: bool = False,
    ) -> str:
        line = f"{SEVERITIES[level]}{self._time(seconds)} {self._pid} {source}] {message if plain else quote(message)}"
        for key, value in facts.items():
            line += f" {KEYS.get(key, key)}={fact_text(value)}"
        return line


class JsonLines:
    """Line of JSON with Kubernetes' keys, in their order, and the key `level`, which Kubernetes does not write.

    ts: milliseconds since 1970, with microseconds as decimals.
    level: debug, info, warning, error or critical.
    logger: source of the line; absent from lines of the program itself.
    caller: directory, file and line of the call.
    v: verbosity; 0 for warnings, which Kubernetes' JSON writes as info lines; absent from errors.
    err: the fact `error`, as the other facts behind these keys.
    """

    has_caller = True

    def __init__(self, program: str = "") -> None:
        self._program = program

    def __call__(
        self,
        level: str,
        seconds: float,
        source: str,
        message: str,
        facts: Mapping[str, Any],
        v: int = 0,
        *,
        caller: str = "",
        plain: bool = False,  # noqa: ARG002 - as TextLines
    ) -> str:
        line: dict[str, Any] = {"ts": round(seconds * 1e3, 3), "level": level}
        if source != self._program:
            line["logger"] = source
        line |= {"caller": caller, "msg": message}
        if level in {"debug", "info", "warning"}:
            line["v"] = DEBUG_VERBOSITY if level == "debug" else v
        for key, value in facts.items():
            name = KEYS.get(key, key)
            line[f"{name}_" if name in line or name == "logger" else name] = value
        return _json(line)


def quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def stack(info: object) -> str:
    """Return the traceback for `exc_info`: an exception, sys.exc_info()'s tuple, or True for the current exception."""
    if isinstance(info, BaseException):
        return "".join(traceback.format_exception(info)).rstrip()
    if isinstance(info, tuple):
        return "".join(traceback.format_exception(*info)).rstrip() if info[0] is not None else ""
    return traceback.format_exc().rstrip()


def fact_text(value: object) -> str:
    match value:
        case str():
            text = value
        case bool() | int() | float() | None:
            return json.dumps(value)
        case bytes():
            text = value.decode(errors="replace")
        case BaseException():
            text = str(value)
        case _:
            return _json(value)
    if "\n" in text:
        inner = text.replace("\n", "\n\t")
        return f"<\n\t{inner}\n >"
    return quote(text)


def _json(value: object) -> str:
    try:
        return orjson.dumps(value, default=_plain, option=orjson.OPT_NON_STR_KEYS).decode()
    except orjson.JSONEncodeError:  # such as an integer of more than 64 bits; the line must not be lost
        return quote(repr(value))


def _plain(value: object) -> object:
    if isinstance(value, Struct):
        return asdict(value)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    return str(value)
