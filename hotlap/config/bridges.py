"""What it takes to drive in the original simulators, and the names they go by."""

from dataclasses import dataclass, replace
from typing import Literal

SCENES: dict[str, str] = {
    "donkey-generated-roads-v0": "generated_road",
    "donkey-warehouse-v0": "warehouse",
    "donkey-avc-sparkfun-v0": "sparkfun_avc",
    "donkey-generated-track-v0": "generated_track",
    "donkey-mountain-track-v0": "mountain_track",
    "donkey-roboracingleague-track-v0": "roboracingleague_1",
    "donkey-waveshare-v0": "waveshare",
    "donkey-minimonaco-track-v0": "mini_monaco",
    "donkey-warren-track-v0": "warren",
    "donkey-circuit-launch-track-v0": "circuit_launch",
    "donkey-thunderhill-track-v0": "thunderhill",
}
"""Scene, which is also a track of ours, of each environment that gym_donkeycar has."""
USUAL_HOST, USUAL_PORT = "127.0.0.1", 9091
LOCKSTEPS = ("auto", "on", "off")
ENCODINGS = ("PNG", "JPG")


@dataclass(frozen=True)
class BridgeConfig:
    """How DonkeyCar simulators are driven over the wire."""

    addresses: tuple[str, ...] = ()
    """Simulators as host:port, one environment each; --host and --port are the short way."""
    timeout: float = 5.0
    """Seconds after which a simulator that does not answer is gone."""
    patience: float = 5.0
    """Seconds to go on trying to connect, at first and again where an episode begins."""
    lockstep: Literal["auto", "on", "off"] = "auto"
    """Have the car wait for every command; auto does with hotlap serve, Unity's cannot."""
    encoding: Literal["PNG", "JPG"] = "PNG"
    """How pictures travel: PNG as they were drawn, JPG smaller and a little spoilt."""

    def __post_init__(self) -> None:
        """Refuse what cannot be driven."""
        for address in self.addresses:
            host_and_port(address)
        for name in ("timeout", "patience"):
            if not 0 < getattr(self, name) <= 3600:
                raise ValueError(f"{name} must lie in (0, 3600] s, got {getattr(self, name)}")
        if self.lockstep not in LOCKSTEPS:
            raise ValueError(f"lockstep must be auto, on or off, got {self.lockstep!r}")
        if self.encoding not in ENCODINGS:
            raise ValueError(f"encoding must be PNG or JPG, got {self.encoding!r}")


def host_and_port(address: str) -> tuple[str, int]:
    """The two halves of an address such as 127.0.0.1:9091 or [::1]:9091."""
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not (port.isascii() and port.isdigit()) or not 1 <= int(port) <= 65535:
        raise ValueError(f"an address is host:port, such as 127.0.0.1:9091, got {address!r}")
    return host, int(port)


def over_the_wire(
    bridge: BridgeConfig, host: str | None, port: tuple[int, ...]
) -> BridgeConfig | None:
    """The bridge with the addresses that --host and --port mean; None where nobody asked for it."""
    if host is None and not port:
        return bridge if bridge.addresses else None
    if bridge.addresses:
        raise ValueError("addresses twice: leave --host and --port out, or --bridge.addresses")
    host = USUAL_HOST if host is None else host
    shown = f"[{host}]" if ":" in host else host
    return replace(bridge, addresses=tuple(f"{shown}:{number}" for number in port or (USUAL_PORT,)))
