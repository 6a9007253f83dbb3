"""Predicted run time and exit code of a container's command line. Nothing is executed.

Supported are `sleep`, `true`, `false`, small programs that end immediately, servers of upstream's test images, and
`sh -c` scripts of these with `;`, `&&`, `||`, `exit N`, `if`, `[ … ]`, `$VARIABLE` and `$(expr A % B)`. That covers the
Jobs of upstream's conformance tests (test/e2e/framework/job/fixtures.go). All other command lines are unknown.
"""

from __future__ import annotations

import math
import posixpath
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kcm.protocols.bounded_cache import bounded_cache, total_size
from kcm.protocols.objects import Object, annotations_of, labels_of, metadata, uid_of

LONGEST_SCRIPT = 10_000  # characters
LONGEST_SLEEP = 1e9  # seconds; a longer sleep counts as endless
MAX_REPLAYED_RUNS = 10  # earlier runs of a container that are replayed to find the files that they left on volumes
SHELLS = {"sh", "bash", "ash", "dash", "zsh", "ksh"}
# Programs that end immediately and succeed.
_ENDING = """
    : cat chmod chown cp curl cut date dig echo env expr find grep head hello hostname id install ls mkdir mv nslookup
    printf ps pwd rm sed seq sort tar true uname wc wget whoami
"""
# An argument that is one of these names a program, and not a subcommand of the image's entry point.
_UNAMBIGUOUS = SHELLS | {"date", "echo", "env", "false", "ls", "sleep", "true"}
# Subcommands of upstream's test image that end; its other subcommands are servers.
_AGNHOST_ENDING = {"connect", "dns-server-list", "dns-suffix", "entrypoint-tester", "etc-hosts", "help", "mounttest"}
# Images that run a shell by default, which ends immediately without input, and hello-world.
_ENDING_IMAGES = """
    almalinux alpine amazonlinux archlinux bash busybox buildpack-deps centos debian fedora hello-world opensuse
    oraclelinux rockylinux ubuntu
"""
ENDING_PROGRAMS, ENDING_IMAGES = frozenset(_ENDING.split()), frozenset(_ENDING_IMAGES.split())
# Images that contain nothing but a server.
_SERVER_IMAGES = {"agnhost", "pause"}
_INTERACTIVE = {"-", "-i", "-l", "--login"}
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+\.?\d*|\.\d+)([smhd]?)")
_REFERENCE = re.compile(r"\$\(([A-Za-z_][\w.-]*)\)")  # expanded by Kubernetes, not by the shell
_KEYED_FIELD = re.compile(r"metadata\.(annotations|labels)\['(.+)'\]")
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")
_REMAINDER = re.compile(r"\$\(expr (\d{1,18}) % (\d{1,18})\)")
_REDIRECTION = re.compile(r"\d*(?:>>?|<)&?\s*[\w./-]+")
_COMMENT = re.compile(r"^\s*#.*$", re.MULTILINE)
_PLAIN_VALUE = re.compile(r"[\w.,:/@%+=-]*")
_INTEGER = re.compile(r"-?\d{1,18}")
_SEPARATORS = {";", "\n"}
_RESERVED = {"then", "elif", "else", "fi"}
_UNSUPPORTED_WORDS = {"case", "do", "done", "for", "function", "until", "{", "}", "!"}


class CommandResult(NamedTuple):
    """The end of a command line. seconds: run time, None if it never ends."""

    seconds: float | None
    exit_code: int = 0


ENDLESS = CommandResult(None)
ENDED = CommandResult(0.0)


class UnknownCommandError(Exception):
    """A command line whose result cannot be predicted."""


class EndlessCommandError(Exception):
    """A command line that does not end."""


def result_of(container: Mapping[str, Any], pod: Object, restarts: int) -> CommandResult | None:
    """Return the result of the run after this number of restarts; None if it is unknown."""
    words = _words(container)
    if not words:
        ends = ends_without_arguments(container.get("image") or "")
        return _without_input(container) if ends else None
    if posixpath.basename(words[0]) in SHELLS and _INTERACTIVE.issuperset(words[1:]):
        return _without_input(container)
    environ = _environ(container, pod) if any("$" in word for word in words) else {}
    words = tuple(_REFERENCE.sub(lambda found: environ.get(found[1], found[0]), word) for word in words)
    volumes = tuple(mount["mountPath"].rstrip("/") + "/" for mount in container.get("volumeMounts") or ())
    return _result(words, tuple(environ.items()), volumes, restarts if volumes else 0)


def ends_without_arguments(image: str) -> bool:
    """Report whether containers of this image end immediately if they have neither command nor arguments."""
    return _short_name(image) in ENDING_IMAGES


def is_server(image: str) -> bool:
    """Report whether containers of this image run until they are stopped, even in a Job."""
    return _short_name(image) in _SERVER_IMAGES


@bounded_cache(4096)
def _short_name(image: str) -> str:
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]


def _without_input(container: Mapping[str, Any]) -> CommandResult:
    """Return what a shell without a script does: it waits for input if the container has stdin, or ends."""
    return ENDLESS if container.get("stdin") else ENDED


def _words(container: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the command line; empty if the image determines it."""
    command, arguments = container.get("command") or (), container.get("args") or ()
    if command:
        return (*command, *arguments)
    if not arguments or ends_without_arguments(container.get("image") or ""):
        return tuple(arguments)  # these images have no entry point
    return tuple(arguments) if "/" in arguments[0] or arguments[0] in _UNAMBIGUOUS else ()


def _environ(container: Mapping[str, Any], pod: Object) -> dict[str, str]:
    """Return variables with literal values or fields of the pod. Those of ConfigMaps and Secrets are unknown."""
    environ: dict[str, str] = {}
    for variable in container.get("env") or ():
        path = ((variable.get("valueFrom") or {}).get("fieldRef") or {}).get("fieldPath")
        value = variable.get("value") or "" if path is None else _field(pod, path)
        if value is not None:
            environ[variable["name"]] = _REFERENCE.sub(lambda found: environ.get(found[1], found[0]), value)
    return environ


def _field(pod: Object, path: str) -> str | None:
    keyed = _KEYED_FIELD.fullmatch(path)
    if keyed is not None:
        return (annotations_of(pod) if keyed[1] == "annotations" else labels_of(pod)).get(keyed[2], "")
    known = {
        "metadata.name": metadata(pod).get("name"),
        "metadata.namespace": metadata(pod).get("namespace"),
        "metadata.uid": uid_of(pod),
        "spec.nodeName": pod["spec"].get("nodeName"),
        "spec.serviceAccountName": pod["spec"].get("serviceAccountName"),
    }
    return known.get(path)


@bounded_cache(4096, longest=4096, size=total_size)
def _result(
    words: Sequence[str], environ: Sequence[tuple[str, str]], volumes: tuple[str, ...], restarts: int
) -> CommandResult | None:
    """Predict the result. volumes: prefixes of paths whose files outlive a run."""
    files: set[str] = set()
    result: CommandResult | None = None
    for _run in range(min(restarts, MAX_REPLAYED_RUNS) + 1):
        program = _Program(dict(environ), files)
        result = program.result(words)
        files = {path for path in program.files if path.startswith(volumes)} if volumes else set()
    return result


class _ExitError(Exception):
    def __init__(self, code: int) -> None:
        self.code = code


class _Program:
    """One run of a command line. files: paths that exist because this or an earlier run created them."""

    def __init__(self, environ: Mapping[str, str], files: set[str]) -> None:
        self._environ, self.files = environ, set(files)
        self._seconds = 0.0
        self._tokens: Sequence[str] = ()
        self._next = 0  # index of the next token
        self._code = 0  # exit code of the last command

    def result(self, words: Sequence[str]) -> CommandResult | None:
        try:
            code = self._execute(words)
        except (UnknownCommandError, RecursionError):
            return None
        except EndlessCommandError:
            return ENDLESS
        return CommandResult(self._seconds, code & 255)

    def _execute(self, words: Sequence[str]) -> int:
        name, arguments = posixpath.basename(words[0]), words[1:]
        if name in SHELLS:
            return self._run_shell(arguments)
        if name == "sleep":
            return self._sleep(arguments)
        if name in ("test", "[", "[["):
            return 0 if self._test([word for word in arguments if word not in ("]", "]]")]) else 1
        if name == "pause" or (name == "tail" and "-f" in arguments):
            raise EndlessCommandError
        if name == "agnhost":
            if arguments and arguments[0] in _AGNHOST_ENDING:
                return 0
            raise EndlessCommandError
        if name == "touch":
            self.files.update(arguments)
        elif name == "rm":
            self.files.difference_update(arguments)
        elif name == "false":
            return 1
        elif name not in ENDING_PROGRAMS:
            raise UnknownCommandError(name)
        return 0

    def _sleep(self, arguments: Sequence[str]) -> int:
        if not arguments:
            return 1
        for text in arguments:
            found = _DURATION.fullmatch(text)
            if found is None and text not in ("infinity", "inf"):
                return 1
            self._seconds += math.inf if found is None else float(found[1]) * _UNITS[found[2]]
        if self._seconds > LONGEST_SLEEP:
            raise EndlessCommandError
        return 0

    def _test(self, words: Sequence[str]) -> bool:
        match words:
            case ["-e" | "-f" | "-r", path]:
                return path in self.files
            case [left, "=" | "==", right]:
                return left == right
            case [left, "!=", right]:
                return left != right
            case [left, "-eq", right]:
                return _integer(left) == _integer(right)
            case [left, "-ne", right]:
                return _integer(left) != _integer(right)
        raise UnknownCommandError("test")

    def _run_shell(self, arguments: Sequence[str]) -> int:
        match arguments:
            case ["-c", script, *_] if not self._tokens and len(script) <= LONGEST_SCRIPT:
                self._tokens = _tokens(script, self._environ)
            case _:
                raise UnknownCommandError("a script that is not on the command line, or too long")
        try:
            self._run_list(execute=True)
        except _ExitError as end:
            return end.code
        if self._next < len(self._tokens):
            raise UnknownCommandError(self._tokens[self._next])
        return self._code

    def _peek(self) -> str | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _expect(self, *words: str) -> str:
        token = self._peek()
        if token not in words:
            raise UnknownCommandError(f"script without {' or '.join(words)}")
        self._next += 1
        return token

    def _run_list(self, *, execute: bool) -> None:
        """Run commands up to a reserved word. execute: False to skip them, in a branch that is not taken."""
        while (token := self._peek()) is not None and token not in _RESERVED:
            if token in _SEPARATORS:
                self._next += 1
            else:
                self._run_and_or(execute=execute)

    def _run_and_or(self, *, execute: bool) -> None:
        self._run_command(execute=execute)
        while (operator := self._peek()) in ("&&", "||"):
            self._next += 1
            self._run_command(execute=execute and (self._code == 0) == (operator == "&&"))

    def _run_command(self, *, execute: bool) -> None:
        if self._peek() == "if":
            self._run_if(execute=execute)
            return
        words: list[str] = []
        while (token := self._peek()) is not None and token not in _SEPARATORS and token not in ("&&", "||"):
            words.append(token)
            self._next += 1
        if not words or words[0] in _UNSUPPORTED_WORDS:
            raise UnknownCommandError(" ".join(words))
        if words[0] == "while":
            self._check_endless(words)
        elif execute and words[0] == "exit":
            raise _ExitError(_integer(words[1]) & 255 if len(words) > 1 else self._code)
        elif execute:
            self._code = self._execute(words)

    def _check_endless(self, words: Sequence[str]) -> None:
        """Raise EndlessCommandError for `while true` without a way out, UnknownCommandError for other loops."""
        if words[1:] in (["true"], [":"]) and not {"exit", "break", "return"} & set(self._tokens[self._next :]):
            raise EndlessCommandError
        raise UnknownCommandError("while")

    def _run_if(self, *, execute: bool) -> None:
        self._expect("if")
        pending, code = execute, 0  # pending: no branch was taken yet
        while True:
            self._run_list(execute=pending)
            self._expect("then")
            taken = pending and self._code == 0
            pending = pending and not taken
            self._run_list(execute=taken)
            if taken:
                code = self._code
            if (word := self._expect("elif", "else", "fi")) == "elif":
                continue
            if word == "else":
                self._run_list(execute=pending)
                code = self._code if pending else code
                self._expect("fi")
            if execute:
                self._code = code
            return


def _integer(text: str) -> int:
    if _INTEGER.fullmatch(text) is None:
        raise UnknownCommandError(f"{text!r} as a number")
    return int(text)


def _tokens(script: str, environ: Mapping[str, str]) -> list[str]:
    """Split a script into words and operators, with variables expanded and without redirections."""

    def value(found: re.Match[str]) -> str:
        text = environ.get(found[1] or found[2], "")
        if _PLAIN_VALUE.fullmatch(text) is None:
            raise UnknownCommandError("a value with special characters")
        return text

    text = _VARIABLE.sub(value, _COMMENT.sub("", script))
    text = _REMAINDER.sub(lambda found: str(int(found[1]) % (int(found[2]) or 1)), text)
    lexer = shlex.shlex(_REDIRECTION.sub(" ", text), posix=True, punctuation_chars=";&|()<>\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    try:
        tokens = [_operator(token) if set(token) <= set(";&|()<>\n") and token else token for token in lexer]
    except ValueError as err:  # a quote without its end
        raise UnknownCommandError(str(err)) from err
    if any("$" in token or "`" in token for token in tokens):
        raise UnknownCommandError("an expansion")
    return tokens


def _operator(token: str) -> str:
    stripped = token.strip("\n")
    if stripped in ("", ";", "&&", "||"):
        return stripped or "\n"
    raise UnknownCommandError(token)
