"""What a command line does, as far as it can be told without running it: how long it takes, and how it ends.

Known are the programs of `_PROGRAMS` and shell scripts made of them (shell.py). What is not known is None: servers,
interpreters, everything that an image brings.
"""

from __future__ import annotations

import hashlib
import math
import posixpath
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import NamedTuple

from kcm.protocols.late_methods import dataclass

SHELLS = {"sh", "bash", "ash", "dash", "zsh", "ksh"}
LONGEST_VALUE = 10_000  # characters
LONGEST = 1e9  # seconds; what takes longer never ends
MOST_STEPS = 2_000  # commands of a script; one with more does not end either
_PASSED_THROUGH = {"exec", "nohup", "busybox", "command", "tini", "dumb-init", "setsid", "stdbuf", "time"}
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)([smhd]?)")
# Subcommands of upstream's test image that end by themselves; the others serve.
_AGNHOST_ENDS = {"connect", "dns-server-list", "dns-suffix", "entrypoint-tester", "etc-hosts", "help", "mounttest"}


class Run(NamedTuple):
    """seconds: after which it ends by itself; None if it never does."""

    seconds: float | None
    exit_code: int = 0


FOR_EVER = Run(None)


class UnknownProgramError(Exception):
    """What it does cannot be told."""


class EndlessError(Exception):
    """It does not end."""


@dataclass(slots=True)
class Machine:
    """What a program sees. files: paths that exist because something made them. seconds: that have passed.

    seed: of its random numbers. steps, draws: commands that were run, and random numbers that were drawn.
    """

    environ: dict[str, str] = field(default_factory=dict)
    files: set[str] = field(default_factory=set)
    seconds: float = 0.0
    seed: str = ""
    steps: int = 0
    draws: int = 0

    def assign(self, assignments: Iterable[str]) -> None:
        """As `NAME=VALUE`; those without a value are passed over. Raises UnknownProgramError."""
        for name, equals, value in (one.partition("=") for one in assignments):
            if len(value) > LONGEST_VALUE:
                raise UnknownProgramError("a long value")
            if equals:
                self.environ[name] = value

    def step(self) -> None:
        """Raises EndlessError after too many."""
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise EndlessError

    def random(self) -> int:
        """15 bits, as $RANDOM; the same again for the same seed."""
        self.draws += 1
        digest = hashlib.blake2b(f"{self.seed}/{self.draws}".encode(), digest_size=2).digest()
        return int.from_bytes(digest, "big") >> 1

    def state(self) -> tuple[dict[str, str], set[str], int]:
        """What decides how a program goes on."""
        return dict(self.environ), set(self.files), self.draws

    def sleep(self, seconds: float) -> None:
        """Raises EndlessError."""
        self.seconds += seconds
        if self.seconds > LONGEST:
            raise EndlessError


def execute(words: Sequence[str], machine: Machine, shell: Callable[[str, Machine], int]) -> int:
    """The exit code of a command line. shell: runs a script. Raises UnknownProgramError, EndlessError."""
    while words:
        name, rest = posixpath.basename(words[0]), words[1:]
        if name in SHELLS:
            return _shell(rest, machine, shell)
        if name in _PASSED_THROUGH:
            words = _without_options(rest)
            continue
        if name == "env":
            given = [word for word in rest if "=" in word and not word.startswith("-")]
            machine.assign(given)
            words = [word for word in _without_options(rest) if word not in given]
            continue
        if name == "timeout":
            return _timeout(_without_options(rest), machine, shell)
        if name == "nice":
            words = rest[2:] if rest[:1] == ["-n"] else _without_options(rest)
            continue
        if name not in _PROGRAMS:
            raise UnknownProgramError(name)
        return _PROGRAMS[name](rest, machine)
    return 0


def _shell(rest: Sequence[str], machine: Machine, shell: Callable[[str, Machine], int]) -> int:
    for index, word in enumerate(rest):
        if word.startswith("-") and not word.startswith("--") and word.endswith("c"):
            if index + 1 == len(rest):
                return 2
            return shell(("set -e\n" if "e" in word else "") + rest[index + 1], machine)
        if not word.startswith("-"):
            break
    raise UnknownProgramError("a script that is not on the command line")


def _timeout(rest: Sequence[str], machine: Machine, shell: Callable[[str, Machine], int]) -> int:
    limit = _seconds(rest[0]) if rest else None
    if limit is None:
        return 125
    began = machine.seconds
    try:
        code = execute(rest[1:], machine, shell)
    except EndlessError:
        machine.seconds = math.inf
    if machine.seconds - began <= limit:
        return code
    machine.seconds = began
    machine.sleep(limit)
    return 124


def _without_options(rest: Sequence[str]) -> Sequence[str]:
    index = 0
    while index < len(rest) and rest[index].startswith("-"):
        index += 1
    return rest[index:]


def _seconds(text: str) -> float | None:
    if text in ("infinity", "inf"):
        return math.inf
    found = _NUMBER.fullmatch(text)
    return None if found is None else float(found[1]) * _UNITS[found[2]]


def _sleep(rest: Sequence[str], machine: Machine) -> int:
    total = 0.0
    for word in rest:
        seconds = _seconds(word)
        if seconds is None:
            return 1
        total += seconds
    machine.sleep(total)
    return 0 if rest else 1


def _succeed(_rest: Sequence[str], _machine: Machine) -> int:
    return 0


def _fail(_rest: Sequence[str], _machine: Machine) -> int:
    return 1


def _never_end(_rest: Sequence[str], _machine: Machine) -> int:
    raise EndlessError


def _touch(rest: Sequence[str], machine: Machine) -> int:
    machine.files.update(word for word in rest if not word.startswith("-"))
    return 0


def _remove(rest: Sequence[str], machine: Machine) -> int:
    machine.files.difference_update(rest)
    return 0


def _cat(rest: Sequence[str], _machine: Machine) -> int:
    """Without a file it ends as well: its standard input is empty."""
    return 0 if rest != ["/dev/zero"] else _never_end(rest, _machine)


def _tail(rest: Sequence[str], machine: Machine) -> int:
    if any(word.startswith("-") and not word.startswith("--") and "f" in word.lower() for word in rest):
        raise EndlessError
    return 0 if "--follow" not in rest else _never_end(rest, machine)


def _test(rest: Sequence[str], machine: Machine) -> int:
    """`[`, `[[` and `test`. Raises UnknownProgramError for what it cannot decide."""
    words = [word for word in rest if word not in ("]", "]]")]
    if "-a" in words or "-o" in words or "&&" in words or "||" in words or "(" in words:
        raise UnknownProgramError("a compound test")
    if words[:1] == ["!"]:
        return 1 - _test(words[1:], machine)
    return 0 if _holds(words, machine) else 1


def _holds(words: Sequence[str], machine: Machine) -> bool:
    match words:
        case []:
            return False
        case [word]:
            return word != ""
        case ["-z", word]:
            return word == ""
        case ["-n", word]:
            return word != ""
        case ["-e" | "-f" | "-r" | "-s" | "-w" | "-x" | "-d", path]:
            return path in machine.files
        case [left, "=" | "==", right]:
            return left == right
        case [left, "!=", right]:
            return left != right
        case [left, "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge" as operator, right]:
            return _COMPARISONS[operator](_integer(left), _integer(right))
    raise UnknownProgramError("a test that is not known")


_COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    "-eq": lambda a, b: a == b,
    "-ne": lambda a, b: a != b,
    "-lt": lambda a, b: a < b,
    "-le": lambda a, b: a <= b,
    "-gt": lambda a, b: a > b,
    "-ge": lambda a, b: a >= b,
}


def _integer(text: str) -> int:
    """Raises UnknownProgramError."""
    if re.fullmatch(r"-?\d{1,18}", text) is None:
        raise UnknownProgramError(f"{text!r} as a number")
    return int(text)


def _agnhost(rest: Sequence[str], _machine: Machine) -> int:
    if rest and rest[0] in _AGNHOST_ENDS:
        return 0
    raise EndlessError


def _perl(rest: Sequence[str], _machine: Machine) -> int:
    """A one-liner ends; a program in a file is not known."""
    if any(re.fullmatch(r"-\w*e", word) for word in rest):
        return 0
    raise UnknownProgramError("perl")


# Programs that do something small and end.
_ENDING = """
    : [ arch awk base64 basename chgrp chmod chown clear cmp cp curl cut date dd df diff dig dirname dmesg du
    echo egrep expr fgrep find free getent grep groups gunzip gzip head host hostname id ifconfig install ip jq
    kill kubectl ln logger ls md5sum mkdir mkfifo mknod mktemp mount mv netstat nproc nslookup od openssl paste
    pgrep ping pkill printenv printf ps pwd readlink realpath route sed seq set sha1sum sha256sum sort split ss
    stat strings stty sync tar tee tr trap tty ulimit umask umount uname uniq unset unzip uptime wait wc wget
    which whoami xargs xxd yq zcat
"""
_PROGRAMS: Mapping[str, Callable[[Sequence[str], Machine], int]] = {
    **dict.fromkeys(_ENDING.split(), _succeed),
    "true": _succeed,
    "false": _fail,
    "sleep": _sleep,
    "usleep": lambda rest, machine: _sleep([f"{_integer(rest[0]) / 1e6:f}"] if rest else [], machine),
    "pause": _never_end,
    "yes": _never_end,
    "touch": _touch,
    "rm": _remove,
    "cat": _cat,
    "tail": _tail,
    "test": _test,
    "[": _test,
    "[[": _test,
    "agnhost": _agnhost,
    "perl": _perl,
    "hello": _succeed,
}
