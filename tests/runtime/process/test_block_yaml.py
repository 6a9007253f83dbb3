"""YAML without PyYAML: nothing is read in another way than PyYAML reads it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kcm.runtime.process.block_yaml import read_block_yaml

KUBECTL = b"""\
apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==
    server: https://10.0.0.1:6443
  name: kubernetes
contexts:
- context:
    cluster: kubernetes
    namespace: ""
    user: system:kube-controller-manager
  name: system:kube-controller-manager@kubernetes
current-context: system:kube-controller-manager@kubernetes
kind: Config
preferences: {}
users:
- name: system:kube-controller-manager
  user:
    client-certificate: /var/lib/pki/manager.pem
    exec:
      apiVersion: client.authentication.k8s.io/v1
      args:
      - token
      - -i
      - "cluster one: # x"
      command: aws
      env: null
      installHint:
      interactiveMode: Never
      provideClusterInfo: false
"""

BY_HAND = b"""\
# of the cluster in the lab

users:
    -   name: admin
        user:
          token: abc
    # the last one
    - name: other
current-context:   lab\x20\x20

contexts: []
"""


def of_pyyaml(text: bytes) -> Any:
    try:
        return yaml.load(text, Loader=yaml.CSafeLoader)
    except (yaml.YAMLError, ValueError):
        return "refused"


def mutated(text: bytes) -> Iterator[bytes]:
    """Yield the text with each line and octet removed and repeated, other octets added, and lines indented."""
    lines = text.splitlines(keepends=True)
    for at, line in enumerate(lines):
        variants = (b"", line + line, b" " + line, b"  " + line, line[1:], line[2:], line + b"\n", b"---\n" + line)
        for changed in variants:
            yield b"".join((*lines[:at], changed, *lines[at + 1 :]))
        if at:
            yield b"".join((*lines[: at - 1], line, lines[at - 1], *lines[at + 1 :]))
    for at in range(len(text)):
        yield text[:at] + text[at + 1 :]
        for added in b" \n:-\"#'\t\r1~\\{[,&|":
            yield text[:at] + bytes([added]) + text[at:]


def test_kubeconfig_of_kubectl_is_read() -> None:
    found = read_block_yaml(KUBECTL)
    assert found is not None
    assert found == of_pyyaml(KUBECTL)
    assert found["users"][0]["user"]["exec"]["args"][2] == "cluster one: # x"
    assert found["users"][0]["user"]["exec"]["provideClusterInfo"] is False
    assert found["users"][0]["user"]["exec"]["installHint"] is None
    assert found["preferences"] == {}


@pytest.mark.parametrize(
    "text",
    [
        *("", "# nothing\n", "a\n", "- a\n", "---\na: b\n", "{a: b}\n", " a: b\n", "a: b\r\n", "ä: b\n", "a: b # c\n"),
        *("a: 1\n", "a: -1\n", "a: 'b'\n", "a: yes\n", "a: True\n", "a: NULL\n", "a: ~\n", "a: 2026-11-29\n"),
        *("yes: b\n", "null: b\n", "a: b c\n", 'a: "b\\n"\n', "a: |\n  b\n", "a: &b c\n", "a: {b: c}\n", "a: [b]\n"),
        *("a: b\na: c\n", "a:\n- - b\n", "a:\n-\n", "a: b\n  c\n", "a:\n  b\n", "a: b:\n", "a:\tb\n"),
        "a:\n    b: c\n  d: e\n",
        "".join(f"{' ' * level}a:\n" for level in range(1000)),
    ],
)
def test_other_form_is_left_to_pyyaml(text: str) -> None:
    assert read_block_yaml(text.encode()) is None


@pytest.mark.parametrize("text", [KUBECTL, BY_HAND], ids=["kubectl", "by hand"])
def test_changed_text_is_read_as_pyyaml_reads_it(text: bytes) -> None:
    read = [(changed, found) for changed in mutated(text) if (found := read_block_yaml(changed)) is not None]
    assert len(read) > 500, "many changes do no harm"
    for changed, found in read:
        assert found == of_pyyaml(changed), changed


words = st.text("abyesnoffullTRUE/.-:=1 #\"'", max_size=6)
values = st.recursive(
    words | st.booleans() | st.none() | st.integers(-1, 1),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(words, values, max_size=4), st.integers(2, 4))
def test_dumped_document_is_read_as_it_was(document: dict[str, Any], indent: int) -> None:
    text = yaml.safe_dump(document, indent=indent, default_flow_style=False).encode()
    found = read_block_yaml(text)
    assert found is None or found == document


LINES = ["a:", "b: c", "- d", "- e: f", "- g:", "h: []", "#", "", '- "i"', "-"]


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(LINES))))
def test_random_lines_are_read_as_pyyaml_reads_them(lines: list[tuple[int, str]]) -> None:
    text = "\n".join(f"{' ' * indent}{content}" for indent, content in lines).encode()
    found = read_block_yaml(text)
    assert found is None or found == of_pyyaml(text)
