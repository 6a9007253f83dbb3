"""Errors of compilation and evaluation."""

from __future__ import annotations

from msgspec import Struct

NOWHERE = -1
MOST_ISSUES = 100
LONGEST_SNIPPET = 16384  # maximum length of a quoted line, in characters


class Issue(Struct, frozen=True):
    """Error of the parser or the checker.

    at: offset into the expression, in code points; NOWHERE without a position.
    """

    at: int
    message: str


class CompileError(Exception):
    """The expression is invalid. issues: at least one, ordered by position."""

    def __init__(self, expression: str, issues: list[Issue]) -> None:
        self.expression = expression
        self.issues = sorted(issues[:MOST_ISSUES], key=lambda issue: issue.at)
        super().__init__("\n".join(rendered(expression, issue) for issue in self.issues))


class ProgramError(Exception):
    """A valid expression contains a constant that cannot be converted, so that it can never be evaluated."""


class EvaluationError(Exception):
    """An expression has no value: no such key, division by zero, a failed conversion. The text is cel-go's.

    cost: cost of the evaluation up to the error.
    """

    cost = 0


class CostExceededError(Exception):
    """The evaluation was stopped because it exceeded its cost limit."""

    cost = 0

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


NO_SUCH_OVERLOAD = "no such overload"


def no_such_key(key: object) -> EvaluationError:
    return EvaluationError(f"no such key: {key}")


def rendered(expression: str, issue: Issue) -> str:
    """Format an issue with its line quoted and its column marked, as cel-go does.

    Source: cel-go common/error.go, ToDisplayString.
    """
    if issue.at == NOWHERE:
        return f"ERROR: <input>:-1:0: {issue.message}"
    if not expression:  # cel-go finds no line in an empty source
        return f"ERROR: <input>:1:0: {issue.message}"
    before = expression[: issue.at]
    line, column = before.count("\n") + 1, issue.at - (before.rfind("\n") + 1)
    text = f"ERROR: <input>:{line}:{column + 1}: {issue.message}"
    lines = expression.split("\n")
    if line > len(lines) or len(lines[line - 1]) > LONGEST_SNIPPET:
        return text
    snippet = lines[line - 1].replace("\t", " ")
    dots = "".join("．" if ord(letter) > 127 else "." for letter in snippet[:column])
    mark = "＾" if column < len(snippet) and ord(snippet[column]) > 127 else "^"
    return f"{text}\n | {snippet}\n | {dots}{mark}"
