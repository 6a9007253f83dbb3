"""Patterns of text that readers stumble over. Each has a reason and an example in test_patterns.py."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from tests.language.texts import Kind, Text

PROSE = {Kind.DOCSTRING, Kind.COMMENT, Kind.LOG, Kind.ERROR, Kind.HELP, Kind.PAGE}

FRAGMENT = re.compile(
    r"(Of|By|As|For|With|From|Without|What|Whose|Who|Whom|Those|Where|Whether|The same|None for|Nobody|Somebody|That|"
    r"Which|In which|To whom|How|So many|Beside|Beyond|Such|Also|Either|Neither|Only|Once|Until|Unless|If|When|While|"
    r"Because|Since|Though|Else|Otherwise)\b|[a-z\"]"
)
SPEAKS = re.compile(
    r"\b(says?|said|tells?|told|asks?|asked|answers?|answered|knows?|knew|wants?|forgets?|speaks?|thinks?)\b",
    re.IGNORECASE,
)
PEOPLE = re.compile(
    r"\b(people|users?|persons?|clients?|operators?|authors?|readers?|engineers?|kubectl|callers?|servers?|who|you|we)\b",
    re.IGNORECASE,
)
DIALECT = re.compile(
    r"\b(nobody|somebody|whoever|whomever|anew|so many|for good|be it|is no matter|but for|in the place of|shall be|"
    r"goes on|go on|went on|put aside|let go|in hand|mended|mends?|spoilt|spoils?|stands? for itself|be had|"
    r"of its own accord|no more than that|for ever|at hand|comes about|of ours|of theirs|what becomes of|what is alike|"
    r"held to|in vain|in turns?|abreast|aloud|likewise|for want of|brings along|brought along)\b",
    re.IGNORECASE,
)
# "There is none" is standard English, and "is None" is code.
NONE = re.compile(r"\b([Tt]hat (is|are) none|(?<!there )(is|are) none|[Ww]hat is no|[Tt]hat is no)\b")
RUN_IN = re.compile(r"(?:(?<=\n)|(?<=\. )|(?<=\.\n))[a-z_]{2,}: ")
ONE_EACH = re.compile(r"\n[a-z_]{2,}: .*\n[a-z_]{2,}: ")
MOST_RUN_IN = 3
VAGUE = {"one", "ones", "said", "told", "those", "somebody", "whom"}
ACTIVITY = re.compile(r"[a-z]+(ing|ly)|abreast|looks|patience|mishaps|knowledge|wishes")
NOUNS = {
    # "apply" as in server-side apply, "pruning" as in the pruning of unknown fields: upstream's terms.
    "adding", "apply", "approving", "assembly", "auditing", "autoscaling", "binding", "debugging", "decoding",
    "embedding", "encoding", "escaping", "formatting", "fuzzing", "greeting", "hashing", "listing", "logging",
    "matching", "mirroring", "mutating", "nesting", "networking", "parsing", "processing", "profiling", "provisioning",
    "pruning", "recycling", "ring", "rolling", "routing", "scheduling", "serving", "setting", "signing", "strategy",
    "string", "testing", "validating", "warning",
}  # fmt: skip
TEST_NAME = re.compile(
    r"_(says?|said|tells?|told|nobody|somebody|whoever|anew|that_(is|are)_none|is_no|are_no|what_is_no|whom|so_many|"
    r"goes_on|go_on|for_ever|for_good|of_others|of_ours|is_to|are_to)(_|$)|^test_(what|who|those|that|of|nobody)_"
)
SENTENCES = re.compile(r"(?<=[.;:])\s")
FILLER = {"a", "an", "the", "of", "to", "is", "are", "its", "it", "this", "that", "in", "for", "and", "be"}


class Pattern(NamedTuple):
    """why: what to write instead."""

    name: str
    why: str


PATTERNS = (
    Pattern("fragment", "begin a docstring with a verb phrase, or with a noun phrase for a class or module"),
    Pattern("repeats-name", "delete a docstring that repeats the name"),
    Pattern("run-in-parameters", "one parameter per line, or a dataclass with commented fields"),
    Pattern("data-speaks", "only people and processes say, tell, ask, know or want"),
    Pattern("dialect", "standard technical English"),
    Pattern("that-is-none", "invalid, missing, empty, unset, unknown or malformed"),
    Pattern("vague-name", "name a variable after what it holds: pod, entry, watch"),
    Pattern("activity-file", "name a file after what it contains"),
    Pattern("test-name", "state the condition and the expected result"),
    Pattern("duplicate-class", "one public class name for one thing"),
)


def findings(text: Text) -> Iterator[tuple[str, str]]:
    """Yield the name of each pattern that a text shows, with the words that show it."""
    match text.kind:
        case Kind.VARIABLE:
            if text.text in VAGUE:
                yield "vague-name", text.text
        case Kind.TEST:
            if TEST_NAME.search(text.text):
                yield "test-name", text.text
        case Kind.FILE:
            words = text.text.removeprefix("test_").strip("_").split("_")
            if any(ACTIVITY.fullmatch(word) and word not in NOUNS for word in (words[0], words[-1])):
                yield "activity-file", text.text
        case Kind.CLASS:
            yield "duplicate-class", text.text  # counted by ratchet.py where it is defined more than once
    if text.kind is Kind.DOCSTRING:
        yield from _docstring_findings(text)
    if text.kind in PROSE:
        yield from _sentence_findings(text.text)


def _docstring_findings(text: Text) -> Iterator[tuple[str, str]]:
    first = text.text.split("\n")[0]
    if FRAGMENT.match(first):
        yield "fragment", first
    if text.name and "\n" not in text.text.strip() and repeats(text.name, first):
        yield "repeats-name", f"{text.name}: {first}"
    if len(RUN_IN.findall(text.text)) >= MOST_RUN_IN and not ONE_EACH.search(text.text):
        yield "run-in-parameters", first


def repeats(name: str, sentence: str) -> bool:
    """Report whether a sentence contains no word that the name does not."""
    parts = re.findall(r"[A-Z]?[a-z0-9]+", name)
    known = FILLER | {_stem(part) for part in parts}
    return all(_stem(word) in known for word in re.findall(r"[A-Za-z0-9]+", sentence))


def _stem(word: str) -> str:
    lower = word.lower()
    return lower if lower in FILLER else lower.rstrip("s")


def _sentence_findings(text: str) -> Iterator[tuple[str, str]]:
    for sentence in SENTENCES.split(text):
        if SPEAKS.search(sentence) and not PEOPLE.search(sentence):
            yield "data-speaks", " ".join(sentence.split())
        if DIALECT.search(sentence):
            yield "dialect", " ".join(sentence.split())
        if NONE.search(sentence):
            yield "that-is-none", " ".join(sentence.split())
