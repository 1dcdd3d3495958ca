"""One car in a DonkeyCar simulator, at the other end of a connection.

Every call ends within its time-outs: with what was asked for, or with `SimulatorGone`. A car whose
simulator went away comes back with the next `reset`, if its simulator does.
"""

import time
from dataclasses import dataclass, replace
from typing import Any

from hotlap.config.bridges import BridgeConfig, host_and_port
from hotlap.config.sensors import CameraConfig
from hotlap.tasks.bridges.pictures import Picture, WrongSimulator, camera_command, read_picture
from hotlap.wire.client import LONGEST_WAIT, DonkeyClient, SimulatorGone
from hotlap.wire.messages import Command, StartLine, Telemetry

FIRST_PAUSE = 0.1
"""Seconds between the first two tries to come back; each pause is twice the one before."""


@dataclass(frozen=True)
class Sight:
    """What is known of the car after a step."""

    picture: Picture
    telemetry: Telemetry
    laps: int = 0
    """Laps driven since the episode began."""
    last_lap_time: float = 0.0
    """Of the last of them, simulated seconds; 0 before the first."""
    lapped: bool = False
    """Whether one ended in this step."""


class WireCar:
    """A car that is told what to do and says what it sees.

    Args:
        address: Where its simulator listens, host:port.
        camera: What it shall see through.
        bridge: Time-outs, and how pictures and steps travel.
        dressing: What else its simulator is told where the car is new.
        mount: How the camera is mounted, beyond what our own cameras can.
    """

    def __init__(
        self,
        address: str,
        camera: CameraConfig,
        bridge: BridgeConfig | None = None,
        dressing: tuple[Command, ...] = (),
        mount: dict[str, Any] | None = None,
    ) -> None:
        self.address = address
        self.camera = camera
        self.bridge = bridge or BridgeConfig()
        command = replace(camera_command(camera, self.bridge.encoding), **(mount or {}))
        self._dressing = (command, *dressing)
        self._client: DonkeyClient | None = None
        self._scene = ""
        self._is_ours = False
        self._after = -1
        self._sent = 0.0
        self._begin_books()

    # --- episodes ------------------------------------------------------------------------------

    def reset(self, scene: str, along: float = 0.0) -> Sight:
        """Put the car at the start of a scene; connects, or connects again, where it has to.

        Args:
            scene: Where to drive.
            along: Share of the road ahead of the start to begin at instead, at rest; Unity's
                simulator would lose its way, so there it stays at the start.

        Raises:
            KeyError: The simulator has no such scene.
            SimulatorGone: It is not there, or not in time.
            WrongSimulator: It cannot show what is needed.
        """
        if self._client is not None and scene == self._scene:
            try:
                return self._restart(self._client, along)
            except SimulatorGone:
                self.close()
        deadline = time.monotonic() + self.bridge.patience
        pause = FIRST_PAUSE
        while True:
            left = max(deadline - time.monotonic(), FIRST_PAUSE)
            try:
                return self._restart(self._enter(scene, left), along)
            except SimulatorGone:
                self.close()
                if time.monotonic() + max(pause, LONGEST_WAIT) > deadline:
                    raise
            except BaseException:
                self.close()
                raise
            time.sleep(pause)
            pause *= 2

    def _enter(self, scene: str, patience: float) -> DonkeyClient:
        """Connect if need be, load a scene and set the car up there."""
        if self._client is None:
            host, port = host_and_port(self.address)
            timeout = self.bridge.timeout
            self._client = DonkeyClient(host, port, patience=patience, timeout=timeout)
        client = self._client
        first = client.load(scene)
        self._scene, self._is_ours = scene, first.episode is not None
        if self.bridge.lockstep == "on" and not self._is_ours:
            raise ValueError(
                f"the simulator at {self.address} cannot wait for commands, only hotlap serve can; "
                "write --bridge.lockstep auto"
            )
        if self._is_ours:
            client.lockstep(self.bridge.lockstep != "off")
        for command in self._dressing:
            client.send(command)
        return client

    def _restart(self, client: DonkeyClient, along: float) -> Sight:
        telemetry = client.reset()
        if along and self._is_ours and telemetry.total_nodes:
            node = client.node_position(int(along * telemetry.total_nodes))
            turn = (node.qx, node.qy, node.qz, node.qw)
            telemetry = client.set_position(node.pos_x, node.pos_y, node.pos_z, turn)
        client.line_crossings()  # of the episode before
        self._begin_books()
        deadline = time.monotonic() + self.bridge.timeout
        while True:
            try:
                return Sight(read_picture(telemetry.image, self.camera), telemetry)
            except WrongSimulator:
                # Unity's may still send what it drew before it heard of the camera.
                if self._is_ours or time.monotonic() > deadline:
                    raise
            telemetry = client.telemetry()

    def _begin_books(self) -> None:
        self._laps, self._last_lap_time = 0, 0.0
        self._marks: dict[int, float] = {}

    # --- steps ---------------------------------------------------------------------------------

    def send(self, steering: float, throttle: float) -> None:
        """Drive so from now on; `receive` tells what came of it."""
        client = self._connected
        client.control(steering, throttle)
        # What is on its way already was drawn before.
        self._after, self._sent = client.frame, time.monotonic()

    def receive(self) -> Sight:
        """What the car sees in the first frame after the last command."""
        client = self._connected
        telemetry = client.telemetry(self._after)
        lapped = any([self._cross(line) for line in client.line_crossings()])
        picture = read_picture(telemetry.image, self.camera)
        return Sight(picture, telemetry, self._laps, self._last_lap_time, lapped)

    @property
    def waited(self) -> float:
        """Seconds since the last command."""
        return time.monotonic() - self._sent

    @property
    def _connected(self) -> DonkeyClient:
        if self._client is None:
            raise SimulatorGone(f"there is no connection to {self.address}; reset first")
        return self._client

    def _cross(self, line: StartLine) -> bool:
        """Note a start line; True where that ends a lap, as gym_donkeycar counts them."""
        index, now = line.starting_line_index, line.time_stamp
        begun = self._marks.get(index)
        self._marks[index] = now
        if begun is None:
            return False
        self._laps, self._last_lap_time = self._laps + 1, now - begun
        return True

    def close(self) -> None:
        """Leave the simulator."""
        if self._client is not None:
            self._client.close()
            self._client = None
