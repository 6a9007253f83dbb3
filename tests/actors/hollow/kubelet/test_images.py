from __future__ import annotations

import pytest

from kcm.actors.hollow.kubelet.images import hindrance, is_reference, missing

NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    "image",
    [
        "webserver:404",
        "docker.io/library/nginx:404",
        "gcr.io/google_samples/gb-redisslave:nonexistent",
        "foo:non-existent",
        "registry.invalid/app",
        "registry.invalid:5000/app:1.0",
        "invalid.registry.k8s.io/invalid/alpine:3.1",
    ],
)
def test_missing_images_are_recognized(image: str) -> None:
    assert missing(image)


@pytest.mark.parametrize(
    "image",
    ["nginx", "nginx:1.27", "registry.k8s.io/pause:3.10", "localhost:5000/a/b:404x", "invalid/app", "app:invalid", "i"],
)
def test_other_images_can_be_pulled(image: str) -> None:
    assert not missing(image)


def test_further_missing_images_match_patterns() -> None:
    assert missing("shop/web:2", ("shop/*:2",))
    assert not missing("shop/web:1", ("shop/*:2",))
    assert "not found" in missing("shop/web:2", ("shop/web:2",))


@pytest.mark.parametrize(
    "image, valid",
    [
        ("nginx", True),
        ("Nginx", False),
        ("REGISTRY.example.com:5000/a/b:V1", True),
        ("nginx:", False),
        ("nginx@sha256:" + "a" * 64, True),
        ("nginx:1.0@sha256:" + "a" * 64, True),
        ("a b", False),
        ("http://nginx", False),
        ("my_app--x.y/z", True),
    ],
)
def test_a_name_is_a_reference_or_not(image: str, valid: bool) -> None:
    assert is_reference(image) is valid


def test_invalid_image_name_is_reported_once_and_not_retried() -> None:
    container = {"name": "web", "image": "Nginx"}
    waiting = hindrance(container, (), None, shown="", now=NOW)
    assert waiting is not None
    assert waiting.state["waiting"]["reason"] == "InvalidImageName"
    assert [(event.reason, event.container) for event in waiting.events] == [
        ("InspectFailed", "web"),
        ("Failed", "web"),
    ]
    assert waiting.due is None
    again = hindrance(container, (), None, shown="InvalidImageName", now=NOW)
    assert again is not None
    assert again.events == ()


def test_missing_image_with_pull_policy_never_is_reported() -> None:
    container = {"name": "web", "image": "web:404", "imagePullPolicy": "Never"}
    waiting = hindrance(container, (), None, shown="", now=NOW)
    assert waiting is not None
    assert waiting.state["waiting"] == {
        "reason": "ErrImageNeverPull",
        "message": 'Container image "web:404" is not present with pull policy of Never',
    }


@pytest.mark.parametrize("image", [None, "", "nginx"])
def test_container_without_an_image_or_with_an_existing_one_starts(image: str | None) -> None:
    assert hindrance({"name": "web", "image": image}, (), None, shown="", now=NOW) is None
