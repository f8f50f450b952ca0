"""Grippers against a server that speaks their lines, and on a digital output."""

import socketserver
import threading

import pytest

from cpor.errors import InvalidSettingError, RobotError
from cpor.robot.grippers import DigitalOutputGripper, RobotiqGripper


class RobotiqServer(socketserver.ThreadingTCPServer):
    """The socket of a Robotiq's URCap: ASCII lines, `SET POS 255 GTO 1` and `GET OBJ`."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), RobotiqLines)
        self.values = {"ACT": 1, "STA": 3, "GTO": 0, "POS": 0, "PRE": 0, "OBJ": 3, "SPE": 0, "FOR": 0}
        self.object_at = None
        self.moving_looks = 0
        self.says_nonsense = self.is_jammed = False


class RobotiqLines(socketserver.StreamRequestHandler):
    def handle(self):
        values, server = self.server.values, self.server
        for line in self.rfile:
            words = line.decode().split()
            if server.says_nonsense:
                self.wfile.write(b"?\n")
            elif words[0] == "SET":
                values.update({name: int(v) for name, v in zip(words[1::2], words[2::2], strict=True)})
                if "POS" in words:
                    wanted = values["POS"]
                    values["PRE"] = wanted
                    held = server.object_at is not None and wanted > server.object_at
                    values["POS"] = server.object_at if held else wanted
                    server.after, values["OBJ"] = (2 if held else 3), 0
                    server.moving_looks = 2
                self.wfile.write(b"ack")
            else:
                if words[1] == "OBJ" and server.moving_looks and not server.is_jammed:
                    server.moving_looks -= 1
                    if not server.moving_looks:
                        values["OBJ"] = server.after
                self.wfile.write(f"{words[1]} {values[words[1]]}\n".encode())


@pytest.fixture
def robotiq():
    server = RobotiqServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_robotiq_opens_closes_and_feels(robotiq):
    gripper = RobotiqGripper(*robotiq.server_address, force=40)
    assert robotiq.values["FOR"] == 40 and robotiq.values["GTO"] == 1
    gripper.open(0.0425)
    assert robotiq.values["POS"] == 128
    gripper.close()
    assert robotiq.values["POS"] == 255 and gripper.holding() is False
    gripper.open()
    assert robotiq.values["POS"] == 0
    robotiq.object_at = 140
    gripper.close()
    assert gripper.holding() is True
    gripper.disconnect()


def test_a_robotiq_that_is_not_activated_is_refused_not_activated(robotiq):
    robotiq.values["STA"] = 0
    with pytest.raises(RobotError, match="activate it at the pendant"):
        RobotiqGripper(*robotiq.server_address)
    assert robotiq.values["GTO"] == 0


def test_a_robotiq_that_never_arrives_is_an_error(robotiq):
    gripper = RobotiqGripper(*robotiq.server_address)
    gripper.timeout_s = 0.2  # once it has answered: a loaded machine may take its time to
    robotiq.is_jammed = True
    with pytest.raises(RobotError, match="did not end its motion"):
        gripper.close()
    gripper.disconnect()


def test_a_robotiq_that_talks_nonsense_or_is_silent_is_an_error(robotiq):
    gripper = RobotiqGripper(*robotiq.server_address)
    robotiq.says_nonsense = True
    with pytest.raises(RobotError, match="answered"):
        gripper.close()
    gripper.disconnect()
    with pytest.raises(RobotError, match="no Robotiq gripper answers"):
        RobotiqGripper("127.0.0.1", 1, timeout_s=0.5)


class Outputs:
    def __init__(self, obeys=True):
        self.levels, self.obeys = {}, obeys

    def setStandardDigitalOut(self, output, level):
        self.levels[output] = level
        return self.obeys


def test_a_gripper_on_a_digital_output():
    io = Outputs()
    gripper = DigitalOutputGripper(io, output=3, travel_s=0.0)
    gripper.close()
    assert io.levels == {3: True} and gripper.holding() is None
    gripper.open(0.05)
    assert io.levels == {3: False}
    inverted = DigitalOutputGripper(io, output=3, inverted=True, travel_s=0.0, sensor=lambda: True)
    inverted.close()
    assert io.levels == {3: False} and inverted.holding() is True
    with pytest.raises(InvalidSettingError, match="0 to 7"):
        DigitalOutputGripper(io, output=8)
    with pytest.raises(RobotError, match="refused"):
        DigitalOutputGripper(Outputs(obeys=False), travel_s=0.0).close()
