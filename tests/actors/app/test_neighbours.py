"""View of the controllers of another process."""

from __future__ import annotations

import pytest

from kcm.actors.app.neighbours import NeighbourView, response_to
from kcm.actors.explanation.manager_state import ControllerState, JoinedViews, KeyReport, LeadershipState, ZoneReport

REPORT = KeyReport(queue="attachments", began=1.0, ended=2.0, reasons=("attaches it to node n1",), failures=2, due=9.0)


class View:
    """View of one controller, which has reconciled one key."""

    def __init__(self, name: str) -> None:
        self._name = name

    def leadership(self) -> LeadershipState:
        return LeadershipState(elects=True, identity=self._name)

    def controller(self, name: str) -> ControllerState:
        return ControllerState(name=name, known=name == self._name, paused=True)

    def keys(self, name: str, resource_id: str, key: str) -> list[KeyReport]:
        return [REPORT] if (name, resource_id, key) == (self._name, "v1/pods", "shop/web") else []

    def zone(self, name: str) -> ZoneReport | None:
        return ZoneReport(state=f"{self._name} {name}")

    def interested(self, resource_id: str) -> list[str]:
        return [self._name] if resource_id == "v1/pods" else []


def test_state_and_keys_of_another_process_are_those_of_its_view() -> None:
    view = NeighbourView(lambda line: response_to(line, View("attacher")))
    assert view.interested("v1/pods") == ["attacher"]
    assert view.keys("attacher", "v1/pods", "shop/web") == [REPORT]
    assert view.keys("attacher", "v1/pods", "shop/other") == []
    assert view.controller("attacher") == ControllerState(name="attacher", paused=True)
    assert not view.controller("other").known


def test_process_that_does_not_respond_gets_one_request() -> None:
    sent = list[bytes]()
    view = NeighbourView(sent.append)
    assert (view.interested("v1/pods"), view.keys("a", "v1/pods", "shop/web")) == ([], [])
    assert not view.controller("a").known
    assert len(sent) == 1


@pytest.mark.parametrize("line", [b"{", b"[]", b'{"name":"leadership","arguments":[]}', b'{"name":"close"}'])
def test_malformed_request_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        response_to(line, View("attacher"))


def test_joined_views_have_the_keys_of_all_and_the_lease_of_the_manager() -> None:
    joined = JoinedViews(View("manager"), [View("attacher")])
    assert joined.interested("v1/pods") == ["manager", "attacher"]
    assert joined.keys("attacher", "v1/pods", "shop/web") == [REPORT]
    assert joined.controller("attacher").known
    assert not joined.controller("other").known
    assert (joined.leadership().identity, joined.zone("a")) == ("manager", ZoneReport(state="manager a"))
