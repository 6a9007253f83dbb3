"""Shell scripts on a command line: `sh -c "…"`, run as far as programs.py knows what is in them.

Lists, pipelines, redirections, if, while, until, for, groups, variables, $(…) and $((…)). A command substitution knows
the words of `echo`, `printf`, `expr`, `seq` and `cat` of nothing; what others print is not known.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence

from kcm.actors.hollow.programs import MOST_STEPS, EndlessError, Machine, UnknownProgramError, execute

LONGEST_SCRIPT = 10_000  # characters
_RESERVED = {"then", "do", "done", "fi", "else", "elif", "}", ")", "esac"}
_OPERATORS = ("&&", "||", ";;", ";", "&", "|", "(", ")", "\n")
_NAME = re.compile(r"[A-Za-z_]\w*")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_REDIRECTION = re.compile(r"\d*(>>|>\||>&|<&|<<<|<|>|&>)")


class _Exit(Exception):
    def __init__(self, code: int) -> None:
        self.code = code


class _Leave(Exception):
    """break, or continue."""

    def __init__(self, again: bool) -> None:
        self.again = again


def run_script(script: str, machine: Machine) -> int:
    """The exit code. Raises UnknownProgramError, EndlessError."""
    if len(script) > LONGEST_SCRIPT:
        raise UnknownProgramError("a long script")
    try:
        return _Script(_tokens(script), machine).run()
    except _Exit as end:
        return end.code
    except (_Leave, RecursionError):
        raise UnknownProgramError("a script that is not understood") from None


def _tokens(script: str) -> list[str]:
    """Words as they are written, with their quotes, and operators. Raises UnknownProgramError."""
    tokens, index, length = [], 0, len(script)
    while index < length:
        if script.startswith("\\\n", index):
            index += 2
        elif script[index] in " \t\r":
            index += 1
        elif script[index] == "#":
            index = script.find("\n", index) if "\n" in script[index:] else length
        else:
            redirection = _REDIRECTION.match(script, index)
            if redirection is not None:
                tokens.append(redirection[0])
                index = redirection.end()
                continue
            found = next((one for one in _OPERATORS if script.startswith(one, index)), None)
            if found is not None:
                tokens.append(found)
                index += len(found)
                continue
            end = _end_of_word(script, index)
            tokens.append(script[index:end])
            index = end
    return tokens


def _end_of_word(script: str, index: int) -> int:
    while index < len(script):
        char = script[index]
        if char == "\\":
            index += 2
        elif char in "'\"`":
            index = _closing(script, index, char) + 1
        elif script.startswith("$(", index):
            index = _closing_bracket(script, index + 1) + 1
        elif script.startswith("${", index):
            index = _closing(script, index, "}") + 1
        elif char in " \t\r\n;&|()<>":
            break
        else:
            index += 1
    return min(index, len(script))


def _closing(script: str, index: int, quote: str) -> int:
    index += 1
    while index < len(script):
        if script[index] == "\\" and quote != "'":
            index += 1
        elif quote == '"' and script.startswith("$(", index):
            index = _closing_bracket(script, index + 1)
        elif script[index] == quote:
            return index
        index += 1
    raise UnknownProgramError("a quote without its end")


def _closing_bracket(script: str, index: int) -> int:
    depth = 0
    while index < len(script):
        char = script[index]
        if char == "\\":
            index += 1
        elif char in "'\"`":
            index = _closing(script, index, char)
        elif char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
            if depth == 0:
                return index
        index += 1
    raise UnknownProgramError("a bracket without its end")


class _Script:
    """Runs its tokens. A construct that is not to be run is passed over: `live` is False then."""

    def __init__(self, tokens: Sequence[str], machine: Machine) -> None:
        self._tokens, self._machine = tokens, machine
        self._at, self._code = 0, 0
        self._exits_on_error = False

    def run(self) -> int:
        self._list(live=True)
        if self._at < len(self._tokens):
            raise UnknownProgramError(f"{self._tokens[self._at]!r} in a script")
        return self._code

    def _next(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _expect(self, token: str) -> None:
        if self._next() != token:
            raise UnknownProgramError(f"a script without {token!r}")
        self._at += 1

    def _skip(self, *tokens: str) -> None:
        while self._next() in tokens and self._at < len(self._tokens):
            self._at += 1

    def _list(self, *, live: bool) -> None:
        """Up to a word that ends it: `done`, `fi`, `)` and so on."""
        self._skip(";", "\n")
        while self._at < len(self._tokens) and self._next() not in _RESERVED:
            self._and_or(live=live)
            if self._next() not in (";", "&", "\n"):
                break
            self._skip(";", "&", "\n")

    def _and_or(self, *, live: bool) -> None:
        self._pipeline(live=live)
        wanted = live
        chained = False
        while self._next() in ("&&", "||"):
            chained = True
            wanted = live and (self._code == 0) == (self._next() == "&&")
            self._at += 1
            self._skip("\n")
            self._pipeline(live=wanted)
        if live and self._exits_on_error and self._code and not chained:
            raise _Exit(self._code)

    def _pipeline(self, *, live: bool) -> None:
        negated = self._next() == "!"
        if negated:
            self._at += 1
        self._command(live=live)
        while self._next() == "|":
            self._at += 1
            self._skip("\n")
            self._command(live=live)
        if negated and live:
            self._code = 0 if self._code else 1

    def _command(self, *, live: bool) -> None:
        if live:
            self._machine.step()
        compound = _COMPOUND.get(self._next())
        if compound is None:
            self._simple(live=live)
            return
        self._at += 1
        compound(self, live)
        self._redirections(live=live)

    def _group(self, live: bool) -> None:
        self._list(live=live)
        self._expect("}")

    def _subshell(self, live: bool) -> None:
        start = self._at
        try:
            self._list(live=live)
        except _Exit as end:
            self._at = start
            self._list(live=False)
            self._code = end.code
        self._expect(")")

    def _if(self, live: bool) -> None:
        done = not live
        code = 0
        while True:
            self._list(live=not done)
            holds = not done and self._code == 0
            self._expect("then")
            self._list(live=holds)
            if holds:
                done, code = True, self._code
            if self._next() != "elif":
                break
            self._at += 1
        if self._next() == "else":
            self._at += 1
            self._list(live=not done)
            if not done:
                code = self._code
        self._expect("fi")
        if live:
            self._code = code

    def _while(self, live: bool, holds: Callable[[int], bool]) -> None:
        start = self._at
        code = 0
        before = None
        while True:
            self._at = start
            if live and before == (before := self._machine.state()):
                raise EndlessError  # the next turn is as the last one
            self._list(live=live)
            go_on = live and holds(self._code)
            self._expect("do")
            if self._body(live=go_on):
                break
            code = self._code
        if live:
            self._code = code

    def _for(self, live: bool) -> None:
        name = self._next()
        self._at += 1
        self._skip("\n", ";")
        words: list[str] = []
        if self._next() == "in":
            self._at += 1
            while self._at < len(self._tokens) and self._next() not in (";", "\n"):
                words += self._expanded(self._next(), live=live)
                self._at += 1
        self._skip("\n", ";")
        self._expect("do")
        start = self._at
        for word in words if live else ():
            self._at = start
            self._machine.step()
            self._machine.environ[name] = word
            if self._body(live=True):
                return
        self._at = start
        self._body(live=False)

    def _body(self, *, live: bool) -> bool:
        """Of a loop, up to its end; whether the loop is over."""
        start, over = self._at, not live
        try:
            self._list(live=live)
        except _Leave as leave:
            over = not leave.again
            self._at = start
            self._list(live=False)
            self._code = 0
        self._expect("done")
        return over

    def _redirections(self, *, live: bool) -> None:
        while _REDIRECTION.fullmatch(self._next()):
            kind = self._next()
            self._at += 1
            target = self._expanded(self._next(), live=live) if not kind.endswith(("<&", ">&")) else []
            self._at += 1
            if live and ">" in kind:
                self._machine.files.update(target)

    def _simple(self, *, live: bool) -> None:
        words: list[str] = []
        begun = False
        while self._at < len(self._tokens) and self._next() not in _OPERATORS:
            token = self._next()
            if _REDIRECTION.fullmatch(token):
                self._redirections(live=live)
                continue
            self._at += 1
            begun = True
            if not live:
                continue
            assigned = _ASSIGNMENT.fullmatch(token) if not words else None
            if assigned is not None:
                self._machine.assign([f"{assigned[1]}={' '.join(self._expanded(assigned[2], live=True))}"])
            else:
                words += self._expanded(token, live=True)
        if not begun and self._at < len(self._tokens) and self._next() == "(":
            raise UnknownProgramError("a function")
        if live:
            self._code = self._execute(words) if words else 0

    def _execute(self, words: list[str]) -> int:
        match words:
            case ["exit"]:
                raise _Exit(self._code)
            case ["exit" | "return", number]:
                raise _Exit(_number(number) & 255)
            case ["break" | "continue", *_]:
                raise _Leave(words[0] == "continue")
            case ["set", option, *_]:
                if re.fullmatch(r"-\w*e\w*", option):
                    self._exits_on_error = True
                return 0
            case ["export" | "readonly" | "local", *rest]:
                self._machine.assign(rest)
                return 0
            case ["exec"]:
                return 0
            case ["exec", *rest]:
                raise _Exit(execute(rest, self._machine, run_script))
        return execute(words, self._machine, run_script)

    def _expanded(self, token: str, *, live: bool) -> list[str]:
        """The words that it stands for: none for an unquoted variable that is empty."""
        if not live:
            return []
        text, quoted = self._text(token)
        if quoted:
            return [text]
        return text.split() if "$" in token or "`" in token else [text]

    def _text(self, token: str) -> tuple[str, bool]:
        """Its text, and whether a part of it is quoted."""
        parts, index, quoted, inside = [], 0, False, False
        while index < len(token):
            char = token[index]
            if char == "'" and not inside:
                end = _closing(token, index, "'")
                parts.append(token[index + 1 : end])
                index, quoted = end + 1, True
            elif char == '"':
                inside, quoted = not inside, True
                index += 1
            elif char == "\\" and index + 1 < len(token):
                parts.append(token[index + 1])
                index += 2
            elif token.startswith("$((", index):
                end = _closing_bracket(token, index + 1)
                parts.append(str(self._arithmetic(token[index + 3 : end - 1])))
                index = end + 1
            elif token.startswith("$(", index):
                end = _closing_bracket(token, index + 1)
                parts.append(self._output(token[index + 2 : end]))
                index = end + 1
            elif char == "`":
                end = _closing(token, index, "`")
                parts.append(self._output(token[index + 1 : end]))
                index = end + 1
            elif char == "$":
                value, index = self._variable(token, index + 1)
                parts.append(value)
            else:
                parts.append(char)
                index += 1
        return "".join(parts), quoted

    def _variable(self, token: str, index: int) -> tuple[str, int]:
        """Its value, and where it ends in the token."""
        if token.startswith("{", index):
            end = _closing(token, index, "}")
            name, _, default = token[index + 1 : end].partition(":-")
            if not _NAME.fullmatch(name):
                raise UnknownProgramError("a parameter expansion")
            return self._value(name) or default, end + 1
        if token.startswith("?", index):
            return str(self._code), index + 1
        found = _NAME.match(token, index)
        if found is None:
            if index < len(token) and (token[index] in "$@*#!-" or token[index].isdigit()):
                return "", index + 1
            return "$", index
        return self._value(found[0]), found.end()

    def _value(self, name: str) -> str:
        if name == "RANDOM":
            return str(self._machine.random())
        return self._machine.environ.get(name, "")

    def _output(self, script: str) -> str:
        """What a command substitution prints, which is known for a few. Raises UnknownProgramError."""
        words: list[str] = []
        for token in _tokens(script):
            if token in _OPERATORS or _REDIRECTION.fullmatch(token):
                return ""
            words += self._expanded(token, live=True)
        match words:
            case ["echo" | "printf", *rest]:
                return " ".join(word for word in rest if word != "-n")
            case ["expr", *rest]:
                return str(self._arithmetic(" ".join(rest)))
            case ["seq", last]:
                return " ".join(map(str, range(1, min(_number(last), MOST_STEPS) + 1)))
            case ["seq", first, last]:
                return " ".join(map(str, range(_number(first), min(_number(last), MOST_STEPS) + 1)))
        return ""

    def _arithmetic(self, text: str) -> int:
        """Raises UnknownProgramError."""
        plain = re.sub(r"\$\{?(\w+)\}?", lambda found: self._value(found[1]) or "0", text)
        try:
            tree = ast.parse(plain.strip(), mode="eval").body
        except (SyntaxError, ValueError):
            raise UnknownProgramError("arithmetic") from None
        return self._evaluate(tree)

    def _evaluate(self, tree: ast.expr) -> int:
        match tree:
            case ast.Constant(value=int(number)) if abs(number) < 1 << 63:
                return number
            case ast.Name(id=name):
                return _number(self._value(name) or "0")
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self._evaluate(operand)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                a, b = self._evaluate(left), self._evaluate(right)
                if b == 0 and isinstance(op, ast.Div | ast.Mod):
                    raise _Exit(1)
                return _ARITHMETIC[type(op)](a, b)
        raise UnknownProgramError("arithmetic")


def _number(text: str) -> int:
    """Raises UnknownProgramError."""
    if re.fullmatch(r"-?\d{1,18}", text) is None:
        raise UnknownProgramError(f"{text!r} as a number")
    return int(text)


_ARITHMETIC: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda a, b: int(a / b),
    ast.Mod: lambda a, b: a - b * int(a / b),
}
_COMPOUND: Mapping[str, Callable[[_Script, bool], None]] = {
    "{": lambda script, live: script._group(live),
    "(": lambda script, live: script._subshell(live),
    "if": lambda script, live: script._if(live),
    "while": lambda script, live: script._while(live, lambda code: code == 0),
    "until": lambda script, live: script._while(live, lambda code: code != 0),
    "for": lambda script, live: script._for(live),
}
