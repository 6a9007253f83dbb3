from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm.actors.controllers.shared.generated_names import as_if_generated, generate_name, generated_names
from kcm.protocols.messages.outcomes import Conflict, Failure, Forbidden, Invalid, Unknown

OWNER = {"metadata": {"name": "web", "namespace": "default", "uid": "uid-of-web", "resourceVersion": "7"}}

PREFIXES = {
    "web": "web-",
    "a": "a-",
    "web.v1": "web.v1-",
    "w" * 253: "w" * 253 + "-",
    "Web": "Web",
    "web_": "web_-",  # upstream looks at "weba": the last character before the dash is masked too
    "_web": "_web",
    "w" * 254: "w" * 254,
}


@pytest.mark.parametrize(("owner", "prefix"), PREFIXES.items())
def test_generate_name_of_an_owner(owner: str, prefix: str) -> None:
    assert generate_name(owner) == prefix


def test_names_are_a_prefix_of_58_characters_and_five_safe_characters() -> None:
    owner = {"metadata": {**OWNER["metadata"], "name": "w" * 100}}
    for name in generated_names(owner, 20, taken=lambda _key: False):
        assert re.fullmatch("w{58}[bcdfghjklmnpqrstvwxz2456789]{5}", name)
    assert all(re.fullmatch("web-.{5}", name) for name in generated_names(OWNER, 20, taken=lambda _key: False))


def test_names_depend_on_the_version_of_the_owner() -> None:
    def names(**meta: str) -> list[str]:
        return generated_names({"metadata": {**OWNER["metadata"], **meta}}, 10, taken=lambda _key: False)

    assert names() == names()
    assert names()[:3] == generated_names(OWNER, 3, taken=lambda _key: False)
    assert not set(names()) & set(names(resourceVersion="8"))
    assert not set(names()) & set(names(uid="another"))


@given(st.sets(st.integers(0, 30)), st.integers(0, 30))
def test_names_are_unique_and_skip_existing_ones(seen: set[int], count: int) -> None:
    first = generated_names(OWNER, 31, taken=lambda _key: False)
    taken = {f"default/{first[i]}" for i in seen}
    names = generated_names(OWNER, count, taken=taken.__contains__)
    assert len(set(names)) == count
    assert not {f"default/{name}" for name in names} & taken
    assert [name for name in first if f"default/{name}" not in taken][:count] == names[: 31 - len(seen)]


BY_PLUGINS_THAT_MAY_CHANGE = [
    'error looking up service account default/robot: serviceaccount "robot" not found',
    "no PriorityClass with name high was found",
    "unable to create new content in namespace default because it is being terminated",
    'pod rejected: RuntimeClass "gvisor" not found',
    "pod node label selector conflicts with its namespace node label selector",
    "unable to validate against any security context constraint: []",  # plugin of a vendor
]
BY_PLUGINS_THAT_VALIDATE = [
    "exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2",
    "failed quota: small: must specify cpu for: c; memory for: c",
    "status unknown for quota: small, resources: pods",
    "insufficient quota to consume: pods",
    "maximum cpu usage per Container is 1, but limit is 2",
    "[minimum memory usage per Pod is 1Gi.  No request is specified, maximum cpu usage per Pod is 1, but limit is 2]",
    "cpu max limit to request ratio per Container is 2, but provided ratio is 4.000000",
    'violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false',
    "ValidatingAdmissionPolicy 'small' with binding 'all' denied request: no",
]


@pytest.mark.parametrize("because", BY_PLUGINS_THAT_MAY_CHANGE)
def test_rejection_by_mutating_plugin_names_the_base(because: str) -> None:
    refused = Forbidden(f'pods "web-x7k2p" is forbidden: {because}', b"{}", 403)
    expected = Forbidden(f'pods "web-" is forbidden: {because}', b"{}", 403)
    assert as_if_generated(refused, "web-x7k2p", base="web-") == expected


@pytest.mark.parametrize("because", BY_PLUGINS_THAT_VALIDATE)
def test_rejection_by_validating_plugin_names_the_pod(because: str) -> None:
    refused = Forbidden(f'pods "web-x7k2p" is forbidden: {because}')
    assert as_if_generated(refused, "web-x7k2p", base="web-") == refused


@pytest.mark.parametrize(
    "failure",
    [
        Invalid('Pod "web-x7k2p" is invalid: spec.containers: Required value'),
        Forbidden('pods is forbidden: User "kcm" cannot create resource "pods" in API group ""'),
        Forbidden('admission webhook "web-x7k2p" denied the request: no'),
        Conflict('Operation cannot be fulfilled on resourcequotas "web-x7k2p": changed'),
        Unknown("timed out"),
    ],
)
def test_other_failures_keep_the_text_of_the_server(failure: Failure) -> None:
    assert as_if_generated(failure, "web-x7k2p", base="web-") == failure
