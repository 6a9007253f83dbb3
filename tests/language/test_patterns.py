"""What each pattern finds, and what it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.language.patterns import PATTERNS, findings
from tests.language.texts import Kind, Text, texts_of


def found_in(kind: Kind, text: str, name: str = "") -> set[str]:
    return {pattern for pattern, _ in findings(Text(kind, 1, text, name))}


@pytest.mark.parametrize(
    "kind, text, pattern",
    [
        (Kind.DOCSTRING, "Of what the server says.", "fragment"),
        (Kind.DOCSTRING, "Those that are due.", "fragment"),
        (Kind.DOCSTRING, "seconds until it is due.", "fragment"),
        (Kind.DOCSTRING, "Wait.\n\nkey: of the pod. node: where it runs. now: seconds.", "run-in-parameters"),
        (Kind.COMMENT, "The table says which pod it is.", "data-speaks"),
        (Kind.LOG, "deployment tells of no progress", "data-speaks"),
        (Kind.ERROR, "the file says nothing of … and …", "data-speaks"),
        (Kind.HELP, "Kept for ever.", "dialect"),
        (Kind.PAGE, "Nobody looks at it anew.", "dialect"),
        (Kind.DOCSTRING, "Return 0 for a time that is none.", "that-is-none"),
        (Kind.VARIABLE, "one", "vague-name"),
        (Kind.FILE, "making_sure", "activity-file"),
        (Kind.FILE, "gradually", "activity-file"),
        (Kind.TEST, "test_conditions_that_are_none", "test-name"),
        (Kind.TEST, "test_what_is_no_request", "test-name"),
        (Kind.TEST, "test_a_wait_says_for_whom", "test-name"),
    ],
)
def test_unclear_text_is_found(kind: Kind, text: str, pattern: str) -> None:
    assert pattern in found_in(kind, text)


@pytest.mark.parametrize(
    "kind, text",
    [
        (Kind.DOCSTRING, "Return the pods that a node runs."),
        (Kind.DOCSTRING, "Work queue with one entry per key."),
        (Kind.DOCSTRING, "Wait.\n\nkey: of the pod.\nnode: where it runs.\nnow: seconds."),
        (Kind.COMMENT, "The client asks for a watch."),
        (Kind.COMMENT, "Only the operator knows the key."),
        (Kind.LOG, "node tainted"),
        (Kind.ERROR, "metadata.name is missing"),
        (Kind.VARIABLE, "pod"),
        (Kind.FILE, "scheduling"),
        (Kind.FILE, "pods"),
        (Kind.TEST, "test_expired_token_is_rejected"),
    ],
)
def test_plain_text_is_not_found(kind: Kind, text: str) -> None:
    assert found_in(kind, text) == set()


@pytest.mark.parametrize(
    "name, docstring, repeats",
    [
        ("delete_pods", "Delete the pods.", True),
        ("NodeTable", "The table of nodes.", True),
        ("delete_pods", "Delete pods that have no node.", False),
    ],
)
def test_docstring_that_repeats_the_name_is_found(name: str, docstring: str, repeats: bool) -> None:
    assert ("repeats-name" in found_in(Kind.DOCSTRING, docstring, name)) is repeats


SOURCE = '''"""Module."""

import argparse


class Queue:
    """Queue of keys."""


def test_key_is_taken(log, parser):
    # Taken before the wait ends.
    one = 1  # not a pod
    log.info("key taken", key=one)
    self.log.warning(f"key {one} is late")
    parser.add_argument("--key", help="Key to take.")
    text: str = flag("", "Text to print.")
    raise ValueError(f"{one}: no such key")
'''


def test_all_texts_of_a_file_are_read() -> None:
    assert {(text.kind, text.text) for text in texts_of(Path("pods.py"), SOURCE)} == {
        (Kind.FILE, "pods"),
        (Kind.DOCSTRING, "Module."),
        (Kind.DOCSTRING, "Queue of keys."),
        (Kind.CLASS, "Queue"),
        (Kind.TEST, "test_key_is_taken"),
        (Kind.COMMENT, "Taken before the wait ends."),
        (Kind.COMMENT, "not a pod"),
        (Kind.VARIABLE, "one"),
        (Kind.VARIABLE, "log"),
        (Kind.VARIABLE, "parser"),
        (Kind.VARIABLE, "text"),
        (Kind.LOG, "key taken"),
        (Kind.LOG, "key … is late"),
        (Kind.HELP, "Key to take."),
        (Kind.HELP, "Text to print."),
        (Kind.ERROR, "…: no such key"),
    }


def test_prose_of_a_page_is_read_without_code() -> None:
    page = "# Title\n\nText with `code that says`.\n\n    a command\n\n```python\nprint()\n```\n\nLast.\n"
    assert [(text.line, text.text) for text in texts_of(Path("page.md"), page)] == [
        (1, "# Title"),
        (3, "Text with …."),
        (11, "Last."),
    ]


def test_each_pattern_is_named_in_the_contribution_guide() -> None:
    guide = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert [pattern.name for pattern in PATTERNS if f"`{pattern.name}`" not in guide] == []
