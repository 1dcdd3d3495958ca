"""Addresses of simulators, from the words of a command line."""

import pytest

from hotlap.config.bridges import BridgeConfig, host_and_port, over_the_wire


@pytest.mark.parametrize(
    ("host", "port", "addresses"),
    [
        (None, (9091, 9093), ("127.0.0.1:9091", "127.0.0.1:9093")),
        ("sim.example", (), ("sim.example:9091",)),
        ("::1", (9091,), ("[::1]:9091",)),
    ],
)
def test_host_and_ports_are_addresses(
    host: str | None, port: tuple[int, ...], addresses: tuple[str, ...]
) -> None:
    bridge = over_the_wire(BridgeConfig(timeout=2.0), host, port)
    assert bridge == BridgeConfig(addresses, timeout=2.0)


def test_nobody_asked_for_the_wire() -> None:
    assert over_the_wire(BridgeConfig(), None, ()) is None


def test_addresses_may_be_given_as_they_are_but_not_twice() -> None:
    bridge = BridgeConfig(("a:1", "b:2"))
    assert over_the_wire(bridge, None, ()) is bridge
    with pytest.raises(ValueError, match="addresses twice"):
        over_the_wire(bridge, "a", ())


@pytest.mark.parametrize("address", ["localhost", "localhost:", ":9091", "h:0", "h:70000", "h:x"])
def test_an_address_is_a_host_and_a_port(address: str) -> None:
    assert host_and_port("[::1]:9091") == ("::1", 9091)
    with pytest.raises(ValueError, match=r"host:port, such as 127\.0\.0\.1:9091"):
        BridgeConfig((address,))


@pytest.mark.parametrize(
    "settings", [{"timeout": 0.0}, {"patience": -1.0}, {"lockstep": "no"}, {"encoding": "GIF"}]
)
def test_what_cannot_be_driven_is_refused(settings: dict) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        BridgeConfig(**settings)
