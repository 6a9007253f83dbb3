"""Warnings within the limits of kube-apiserver, and field errors within our own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.errors.field_errors import invalid
from kcm.runtime.apiserver.errors.status_errors import LONGEST_CAUSES, MOST_CAUSES
from kcm.runtime.apiserver.errors.warnings import LONGEST, MOST_TEXT, Warnings
from tests.runtime.apiserver.conftest import Api
from tests.runtime.apiserver.http.served import PODS, Served, run


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (["a", "b", "a", ""], ["a", "b"]),
        (["x" * MOST_TEXT], ["x" * MOST_TEXT]),
        (["x" * (MOST_TEXT + 1)], ["x" * LONGEST]),
        (["x" * 4000, "y" * 200], ["x" * LONGEST, "y" * 200]),
        (["two\nlines", "a\x7fb", "c"], ["c"]),
        ([f"{number:04}" + "é" * 300 for number in range(20)], [f"{number:04}" + "é" * 252 for number in range(16)]),
    ],
    ids=["distinct", "just fits", "one too long", "two too long together", "control characters", "many"],
)
def test_warnings_are_truncated_at_the_total_limit(given: list[str], shown: list[str]) -> None:
    assert Warnings(given).shown() == shown


def test_no_more_warnings_are_computed_than_a_response_can_show(api: Api) -> None:
    pod = api.pod()
    pod["spec"]["containers"][0]["env"] = [{"name": "A", "value": "x"} for _ in range(20_000)]
    created = api.create("pods", pod)
    assert created.status == 201
    assert 30 < len(created.warnings) < 60


def test_field_errors_are_reported_up_to_a_number() -> None:
    errors = [invalid(f"a[{number}]", "x", "wrong") for number in range(10_000)]
    status = status_errors.invalid("", "Pod", "p", errors).status
    causes = status["details"]["causes"]
    assert len(causes) == MOST_CAUSES + 1
    assert causes[0] == {"reason": "FieldValueInvalid", "message": 'Invalid value: "x": wrong', "field": "a[0]"}
    assert causes[-1] == {"message": "and 9700 more"}
    assert status["message"].endswith(", and 9700 more]")


def test_field_errors_are_reported_up_to_a_length_and_the_first_always() -> None:
    errors = [invalid("a", "x" * (LONGEST_CAUSES + 1), "wrong")] * 3
    causes = status_errors.invalid("", "Pod", "p", errors).status["details"]["causes"]
    assert [cause["message"][:16] for cause in causes] == ['Invalid value: "', "and 2 more"]


def test_field_errors_within_the_limits_are_reported_as_upstream_does() -> None:
    errors = [invalid("a", 1, "wrong"), invalid("b", 2, "wrong")]
    status = status_errors.invalid("apps", "Deployment", "d", errors).status
    assert status["message"] == (
        'Deployment.apps "d" is invalid: [a: Invalid value: 1: wrong, b: Invalid value: 2: wrong]'
    )
    assert len(status["details"]["causes"]) == 2


@pytest.mark.parametrize("query", ["", "?fieldValidation=Strict"])
def test_body_with_many_unknown_fields_is_answered_with_a_short_head(query: str) -> None:
    pod = Api.pod()
    pod["spec"] |= {f"unknown-{number:06}-{'x' * 20}": 1 for number in range(15_000)}

    async def scenario(served: Served) -> None:
        answer = await served.ask("POST", PODS + query, json=pod)
        warnings = answer.headers.getall("Warning", [])
        if query:
            assert (answer.status, len(warnings)) == (400, 0)
            assert answer.raw.count(b"unknown field") == 100
        else:
            assert answer.status == 201
            assert warnings[0] == '299 - "unknown field \\"spec.unknown-000000-xxxxxxxxxxxxxxxxxxxx\\""'
            assert 4096 < sum(map(len, warnings)) < 6000

    run(scenario)


def test_generator_of_warnings_is_not_read_to_its_end() -> None:
    read = 0

    def texts() -> Iterator[str]:
        nonlocal read
        for read in range(1_000_000):
            yield f"warning {read}"

    from kcm.runtime.apiserver.core.cluster import Remarks

    remarks = Remarks()
    for text in texts():
        if remarks.warnings.is_full:
            break
        remarks.warnings.add(text)
    assert read < 400
