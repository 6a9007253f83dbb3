"""Long computations run in slices, so that other requests are served meanwhile, with the same results."""

from __future__ import annotations

import asyncio
import sys
import threading
from contextlib import nullcontext
from typing import Any

import pytest

from kcm.runtime.apiserver.core.long_computations import AT_ONCE
from kcm.runtime.apiserver.core.questions import Answer, Computation, unanswered
from kcm.runtime.apiserver.kinds.built_in import BUILT_IN
from kcm.runtime.apiserver.server.event_loop.long_computations import MOST_THREADS, LongComputations
from kcm.runtime.apiserver.server.event_loop.round_robin import RoundRobin
from kcm.runtime.apiserver.storage.store import MemoryStore
from kcm.runtime.cel import effort
from kcm.runtime.cel.language import base_environment, compiled_program
from tests.runtime.apiserver.conftest import Api
from tests.runtime.apiserver.core.test_custom_resources import THINGS, crd, thing
from tests.runtime.apiserver.http.served import Served, serving

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
MUTATING = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"
MUTATING_BINDINGS = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"
# Costs about 400,000 units of the million that an expression may cost.
LONG = "lists.range(200).all(x, lists.range(200).all(y, x + y >= 0))"
RULES = [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["configmaps"]}]


def policy(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p"}, "spec": {"matchConstraints": {"resourceRules": RULES}, **spec}}


def binding(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "b"}, "spec": {"policyName": "p", **spec}}


def run(scenario: Any) -> None:
    async def serve() -> None:
        async with serving(MemoryStore(), BUILT_IN) as served:
            await scenario(served)

    asyncio.run(serve())


async def post(served: Served, path: str, body: Any, status: int = 201) -> None:
    made = await served.ask("POST", path, json=body)
    assert made.status == status, made.raw[:300]


async def served_meanwhile(served: Served, method: str, path: str, body: Any) -> tuple[Any, int]:
    """Return the response, and the number of requests from another client that were served before it."""
    long = asyncio.ensure_future(served.ask(method, path, json=body))
    others = 0
    while not long.done():
        assert (await served.get(SECRETS)).status == 200
        others += 1
    return await long, others


@pytest.mark.parametrize("verdict", [True, False])
def test_others_are_served_while_a_policy_is_evaluated(verdict: bool) -> None:
    async def scenario(served: Served) -> None:
        expression = f"{LONG} == {str(verdict).lower()}"
        await post(served, POLICIES, policy(validations=[{"expression": expression, "message": "no"}]))
        await post(served, BINDINGS, binding(validationActions=["Deny"]))
        answer, others = await served_meanwhile(served, "POST", CONFIG_MAPS, {"metadata": {"name": "c"}})
        assert answer.status == (201 if verdict else 422)
        assert others > 3
        if not verdict:
            assert answer.json["message"].endswith("denied request: no")

    run(scenario)


def test_warnings_of_a_long_policy_are_returned() -> None:
    async def scenario(served: Served) -> None:
        await post(served, POLICIES, policy(validations=[{"expression": f"!({LONG})", "message": "beware"}]))
        await post(served, BINDINGS, binding(validationActions=["Warn"]))
        answer, _ = await served_meanwhile(served, "POST", CONFIG_MAPS, {"metadata": {"name": "c"}})
        assert answer.status == 201
        assert len(answer.headers.getall("Warning")) == 1

    run(scenario)


def test_others_are_served_while_an_object_is_mutated() -> None:
    async def scenario(served: Served) -> None:
        expression = f"Object{{data: {{'made': string({LONG})}}}}"
        mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}
        await post(served, MUTATING, policy(mutations=[mutation] * 2, reinvocationPolicy="Never"))
        await post(served, MUTATING_BINDINGS, binding())
        answer, others = await served_meanwhile(served, "POST", CONFIG_MAPS, {"metadata": {"name": "c"}})
        assert (answer.status, answer.json["data"]) == (201, {"made": "true"})
        assert others > 3

    run(scenario)


def test_others_are_served_while_match_conditions_are_evaluated() -> None:
    async def scenario(served: Served) -> None:
        hook = {
            "name": "h.example.com",
            "clientConfig": {"url": "https://127.0.0.1:1/x"},
            "rules": RULES,
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "matchConditions": [{"name": "long", "expression": f"!({LONG})"}],
        }
        await post(served, WEBHOOKS, {"metadata": {"name": "w"}, "webhooks": [hook]})
        answer, others = await served_meanwhile(served, "POST", CONFIG_MAPS, {"metadata": {"name": "c"}})
        assert answer.status == 201
        assert others > 3

    run(scenario)


def test_others_are_served_while_rules_of_a_schema_are_evaluated() -> None:
    async def scenario(served: Served) -> None:
        rule = {"rule": "self.all(x, self.exists(y, y == x))"}
        many = {"type": "array", "maxItems": 300, "items": {"type": "integer"}, "x-kubernetes-validations": [rule]}
        schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"many": many}}}}
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        await post(served, DEFINITIONS, crd(versions=[version]))
        answer, others = await served_meanwhile(served, "POST", THINGS, thing(spec={"many": [*range(300)]}))
        assert answer.status == 201, answer.raw[:300]
        assert others > 3
        changed = {**answer.json, "spec": {"many": [*range(1, 301)]}}
        answer, others = await served_meanwhile(served, "PUT", f"{THINGS}/t", changed)
        assert answer.status == 200
        assert others > 3

    run(scenario)


def test_others_are_served_while_expressions_are_compiled() -> None:
    async def scenario(served: Served) -> None:
        listed = [{"expression": f"[{','.join(['1'] * 3_000)}].size() > {number}"} for number in range(5)]
        answer, others = await served_meanwhile(served, "POST", POLICIES, policy(validations=listed))
        assert answer.status == 201
        assert others > 3

    run(scenario)


def test_expressions_may_call_the_authorizer_between_slices() -> None:
    async def scenario(served: Served) -> None:
        check = "authorizer.group('').resource('pods').namespace('default').check('get').allowed()"
        await post(served, POLICIES, policy(validations=[{"expression": f"{LONG} && {check}"}]))
        await post(served, BINDINGS, binding(validationActions=["Deny"]))
        answer, _ = await served_meanwhile(served, "POST", CONFIG_MAPS, {"metadata": {"name": "c"}})
        assert answer.status == 201

    run(scenario)


def test_request_applies_to_the_state_after_the_computation() -> None:

    async def scenario(served: Served) -> None:
        await post(served, CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"a": "b"}})
        await post(served, POLICIES, policy(validations=[{"expression": f"request.operation == 'DELETE' || {LONG}"}]))
        await post(served, BINDINGS, binding(validationActions=["Deny"]))
        patch, headers = {"data": {"x": "y"}}, {"Content-Type": "application/merge-patch+json"}
        long = asyncio.ensure_future(served.ask("PATCH", f"{CONFIG_MAPS}/c", json=patch, headers=headers))
        while not served.front._resources._suspended_calls._running:
            await asyncio.sleep(0)
        removed = await served.ask("DELETE", f"{CONFIG_MAPS}/c")
        assert removed.status == 200
        assert (await long).status == 404

    run(scenario)


def test_in_process_request_is_carried_out_at_once(api: Api) -> None:
    api.send("POST", POLICIES, policy(validations=[{"expression": LONG}]))
    api.send("POST", BINDINGS, binding(validationActions=["Deny"]))
    assert api.create("configmaps", {"metadata": {"name": "c"}}).status == 201


class Loop:
    """Event loop whose turns the test runs, on a clock that stands still."""

    def __init__(self) -> None:
        self.time = 0.0
        self._next: list[Any] = []
        self.work = LongComputations(
            RoundRobin(now=self._later, soon=self._next.append),
            now=lambda: self.time,
            conversion_context=lambda _outside: nullcontext(),
        )
        self.answers: dict[bytes, Answer] = {}

    def _later(self) -> float:
        self.time += 0.003
        return self.time

    def do(self, key: bytes, act: Any) -> None:
        self.work.run(Computation(key, act, unanswered), lambda answer: self.answers.update({key: answer}))

    def turn(self) -> bool:
        due, self._next[:] = [*self._next], []
        for callback in due:
            callback()
        return bool(self._next)


def counting(units: int, raised: Exception | None = None) -> Any:
    def act() -> str:
        for _ in range(units // 100):
            effort.pass_time(100)
        if raised is not None:
            raise raised
        return "done"

    return act


def test_computations_take_turns_and_return_results_and_errors() -> None:
    loop = Loop()
    loop.do(b"long", counting(100_000))
    loop.do(b"short", counting(10_000))
    loop.do(b"wrong", counting(10_000, KeyError("x")))
    turns = 0
    while loop.turn():
        turns += 1
    assert list(loop.answers)[-1] == b"long"
    assert loop.answers[b"long"].result == ("done", None)
    assert isinstance(loop.answers[b"wrong"].result.error, KeyError)  # type: ignore[union-attr]
    assert turns > 100_000 / effort.STEP / 4


def test_computation_that_takes_too_long_is_cancelled() -> None:
    loop = Loop()
    loop.do(b"endless", counting(1 << 60))
    while loop.turn():
        loop.time += 1.0
    assert isinstance(loop.answers[b"endless"].result.error, TimeoutError)  # type: ignore[union-attr]


def test_number_of_threads_for_computations_is_limited() -> None:
    loop, before, most = Loop(), threading.active_count(), 0
    for number in range(3 * MOST_THREADS):
        loop.do(bytes((number,)), counting(20_000))
    while loop.turn():
        most = max(most, threading.active_count() - before)
    assert len(loop.answers) == 3 * MOST_THREADS
    assert most <= MOST_THREADS
    assert threading.active_count() == before


def test_suspended_deep_expression_restores_the_recursion_limit() -> None:
    before, loop = sys.getrecursionlimit(), Loop()
    expression = "(" * 200 + "lists.range(100).all(x, lists.range(100).all(y, x + y >= 0))" + ")" * 200
    program = compiled_program(expression, base_environment())[0]
    for number in range(3):
        loop.do(bytes((number,)), lambda: program.evaluate({})[0])
    while loop.turn():
        assert compiled_program("dyn(" * 200 + "1" + ")" * 200, base_environment())[0].evaluate({})[0] == 1
    assert [answer.result for answer in loop.answers.values()] == [(True, None)] * 3
    assert sys.getrecursionlimit() == before


def test_short_computation_is_not_suspended() -> None:
    with effort.allowance(AT_ONCE) as left:
        counting(AT_ONCE - 100)()
        assert 0 <= left() <= 100
        with pytest.raises(effort.TooLongError):
            counting(300)()
    counting(10 * AT_ONCE)()


def test_large_patch_is_suspended_for_merge_comparison_and_validation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    works: list[Computation] = []
    run_computation = LongComputations.run

    def noted(self: LongComputations, work: Computation, then: Any) -> None:
        works.append(work)
        run_computation(self, work, then)

    monkeypatch.setattr(LongComputations, "run", noted)

    async def scenario(served: Served) -> None:
        pods, spec = "/api/v1/namespaces/default/pods", {"containers": [{"name": "c", "image": "i"}]}
        await post(served, pods, {"metadata": {"name": "p"}, "spec": spec})
        many = {"spec": {"containers": [{"name": f"c{number}", "image": "i"} for number in range(5000)]}}
        strategic = {"Content-Type": "application/strategic-merge-patch+json"}
        answer = await served.ask("PATCH", f"{pods}/p", json=many, headers=strategic)
        assert answer.status == 422
        assert "pod updates may not add or remove containers" in answer.json["message"]

    run(scenario)
    assert len({work.key for work in works}) == 3
