"""What `hotlap serve` can be told."""

import ipaddress
from dataclasses import dataclass

from hotlap.config.commands import Command


@dataclass(frozen=True)
class ServeConfig(Command):
    """Stand in for the DonkeyCar simulator: the same protocol, headless, a world per connection."""

    port: int = 9091
    """TCP port to listen on; 0 takes a free one."""
    host: str = "127.0.0.1"
    """Address to listen on. Anything but loopback lets other machines in: nobody is asked who."""
    speed: float = 1.0
    """Simulated seconds per second, as far as the machine keeps up."""
    lockstep: bool = False
    """Wait for a control message before every step, instead of running on."""
    clients: int = 32
    """Connections served at once; further ones are turned away."""
    message_bytes: int = 16384
    """Longest message taken from a client."""
    messages_per_second: float = 2000.0
    """Fastest that a client is read; one that sends faster has to wait."""
    idle_seconds: float = 300.0
    """A client that has sent nothing for so long, and whose car has not moved, is disconnected."""
    slow_seconds: float = 60.0
    """A client that has not read what it was sent for so long is disconnected."""
    repeat_seconds: float = 0.5
    """In lockstep, a client that sends nothing is told again where it is, this often."""

    def __post_init__(self) -> None:
        """Refuse what cannot be served."""
        if not 0 <= self.port <= 65535:
            raise ValueError(f"port must lie in 0..65535, got {self.port}")
        if not 0 < self.speed <= 1000:
            raise ValueError(f"speed must lie in (0, 1000], got {self.speed}")
        if not 1 <= self.clients <= 1024:
            raise ValueError(f"clients must lie in 1..1024, got {self.clients}")
        if self.message_bytes < 1024:
            raise ValueError(f"message_bytes must be at least 1024, got {self.message_bytes}")
        if self.messages_per_second < 100:
            raise ValueError(
                f"messages_per_second must be at least 100, got {self.messages_per_second}"
            )
        for name in ("idle_seconds", "slow_seconds", "repeat_seconds"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")

    @property
    def is_open(self) -> bool:
        """Whether other machines can connect."""
        try:
            return not ipaddress.ip_address(self.host).is_loopback
        except ValueError:  # a name
            return self.host != "localhost"
