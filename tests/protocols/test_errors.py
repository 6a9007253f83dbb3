import pytest

from kcm.protocols.addresses import host_port, is_address
from kcm.protocols.errors import aggregate


@pytest.mark.parametrize(
    ("texts", "expected"), [([], ""), (["a"], "a"), (["a", "a"], "a"), (["b", "a", "b"], "[b, a]")]
)
def test_several_errors_are_one_text(texts: list[str], expected: str) -> None:
    assert aggregate(texts) == expected


def test_the_port_of_an_ipv6_address_stands_apart() -> None:
    assert [host_port(host, 80) for host in ("10.0.0.1", "fd00::1", "name")] == [
        "10.0.0.1:80",
        "[fd00::1]:80",
        "name:80",
    ]


@pytest.mark.parametrize(
    ("text", "expected"), [("10.0.0.1", True), ("fd00::1", True), ("10.0.0.1/8", False), ("", False)]
)
def test_addresses_are_of_either_family(text: str, expected: bool) -> None:
    assert is_address(text) is expected
