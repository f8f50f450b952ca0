"""The ROS 2 node over DDS, called by plain cyclonedds types: topics, service, actions, parameters."""

import importlib.util
import threading
import time
from contextlib import contextmanager

import pytest
from bridges.dds_domain import own_domain
from bridges.dds_peer import ActionClient, Camera, Peer, Server, parameter
from bridges.test_ros2 import COLOR, DEPTH, FREE, noisy, wait_for
from support.box_table import BoxTable, TableMasks, stack
from typer.testing import CliRunner

from cpor.bridges.ros2_actions import ABORTED, CANCELED, SUCCEEDED, TERMINATED, UNKNOWN, UNKNOWN_GOAL
from cpor.bridges.ros2_clients import ActionClient as GoalClient
from cpor.bridges.ros2_messages import WireError, new, type_store
from cpor.bridges.ros2_node import DecideNode
from cpor.bridges.ros2_parameters import NodeSettings
from cpor.bridges.ros2_transport import DdsTransport, Transport
from cpor.cli.app import app
from cpor.robot.cycle import LoopSettings
from cpor.system import System

DOMAIN = own_domain()


def over_dds():
    return DdsTransport(DOMAIN)


def over_rclpy():
    pytest.importorskip("rclpy", reason="not installed; it comes with ROS 2, or pip install ros-rclpy")
    from cpor.bridges.ros2_rclpy import RclpyTransport

    return RclpyTransport("/contract")


@pytest.mark.parametrize("make", [over_dds, over_rclpy])
def test_what_every_transport_does(make):
    """Two ends of the same kind: topics in order, a latched one for who comes late, calls answered later."""
    near, far, heard = make(), make(), []
    try:
        say = near.publish("/contract/name", "diagnostic_msgs/KeyValue")
        end = far.subscribe("/contract/name", "diagnostic_msgs/KeyValue", lambda m, s: heard.append((m, s)))
        wait_for(say.wanted)
        while not heard:  # the other end may not know of this one yet
            say(new("diagnostic_msgs/KeyValue", key="hello"))
            time.sleep(0.05)
        began = time.monotonic()
        for k in range(3):
            say(new("diagnostic_msgs/KeyValue", key=str(k), value="ü"))
        wait_for(lambda: heard[-1][0].key == "2")
        assert [m.key for m, _ in heard if m.key != "hello"] == ["0", "1", "2"] and heard[-1][0].value == "ü"
        assert began <= heard[-1][1] <= time.monotonic()
        end()
        before = len(heard)
        say(new("diagnostic_msgs/KeyValue", key="3"))
        time.sleep(0.1)
        assert len(heard) == before
        kept, trigger = [], "std_srvs/srv/Trigger"
        near.publish("/contract/kept", "std_msgs/String", latched=True)(new("std_msgs/String", data="before"))
        far.subscribe("/contract/kept", "std_msgs/String", lambda m, s: kept.append(m.data), latched=True)
        wait_for(lambda: kept == ["before"])
        near.serve("/contract/stop", trigger, lambda _, reply: reply(new(f"{trigger}_Response", message="ü")))
        client, came = far.client("/contract/stop", trigger), []
        wait_for(client.ready)
        client.send(new(f"{trigger}_Request"), came.append)
        wait_for(lambda: [each.message for each in came] == ["ü"])
    finally:
        near.close()
        far.close()


class Still(Transport):
    """Nothing comes; tells which types can be read when a topic begins to be heard."""

    def _hear_raw(self, topic, kind, came, latched):
        self.readable = set(type_store().cache)
        return lambda: None

    def publish(self, *_, **__): ...

    serve = client = close = publish


def test_a_type_can_be_read_before_its_first_message_comes():
    """To make its reader takes half a second at first: messages that come meanwhile would be lost."""
    transport, kind = Still(), "sensor_msgs/msg/TimeReference"
    assert kind not in type_store().cache
    transport.subscribe("/contract/early", "sensor_msgs/TimeReference", lambda message, sent_s: None)
    assert kind in transport.readable


@contextmanager
def node_beside(peer_type=Peer, attached=None, system=None, **settings):
    """A node over DDS, and somebody else."""
    table = BoxTable(dict(FREE))
    settings = NodeSettings(COLOR, DEPTH, **settings)
    system = system or System(TableMasks(table), "none")
    node = DecideNode(DdsTransport(DOMAIN), settings, system, attached)
    peer = peer_type(DOMAIN, COLOR, DEPTH) if peer_type is Camera else Peer(DOMAIN)
    try:
        yield node, peer, table
    finally:
        node.close()


def last_of(reader):
    """The newest message of a topic, once there is one."""
    came = []
    wait_for(lambda: came.extend(reader.take(50)) or came)
    return came[-1]


class Feeding:
    """Frames of a table, ten a second, as long as it is open."""

    def __init__(self, camera, table):
        self._camera, self._table, self._ended = camera, table, threading.Event()
        self._thread = threading.Thread(target=self._feed)

    def _feed(self):
        number = 0
        while not self._ended.wait(0.1):
            seen = self._table.observe()
            self._camera.send(seen.rgb, noisy(seen, number))
            number += 1

    def __enter__(self):
        self._thread.start()

    def __exit__(self, *error):
        self._ended.set()
        self._thread.join()


def test_topics_service_and_the_action_decide():
    with node_beside(Camera, target=1, max_age_s=60.0) as (_, camera, table):
        decisions = camera.hear("/cpor/decision", "cpor_msgs/msg/Decision")
        labels = camera.hear("/cpor/labels", "sensor_msgs/msg/Image")
        found = camera.hear("/cpor/detections", "vision_msgs/msg/Detection2DArray")
        health = camera.hear("/diagnostics", "diagnostic_msgs/msg/DiagnosticArray")
        service = camera.client("/cpor/decide", "cpor_msgs/srv/Decide")
        action = ActionClient(camera, "/cpor/decide", "cpor_msgs/action/Decide")
        waits, accepted = action.send(target=1, x=-1.0)  # no picture yet
        assert accepted
        wait_for(lambda: any(each.stage == "waiting" for each in action.feedback(waits)))
        assert action.cancel(waits) == (0, 1)
        status, result = action.result(waits)
        assert status == CANCELED and result.decision.state == "no_answer"
        assert action.cancel(waits)[0] == TERMINATED
        with Feeding(camera, table):
            came = []
            wait_for(
                lambda: came.extend(decisions.take(10)) or any(e.state == "not_obstructed" for e in came)
            )
            said = next(each for each in came if each.state == "not_obstructed")
            assert said.object == 1 and len(said.p) == len(said.blocker) > 0
            reply = service.call(target=2, x=-1.0)
            assert reply.decision.target == 2 and reply.decision.state == "not_obstructed"
            # Ask, answer, act: a person says that 1 obstructs 2, then takes it back.
            told = service.call(target=2, x=-1.0, mode="bold", answers=["1 on 2"]).decision
            assert (told.state, told.action, told.object, told.promised) == ("obstructed", "remove", 1, False)
            both = ["1 on 2", "not 1 on 2"]
            assert service.call(target=2, x=-1.0, mode="bold", answers=both).decision.action == "grasp"
            which = service.call(request="the box", x=-1.0).decision
            assert which.state == "no_answer" and which.question
            assert service.call(request="the box", x=-1.0, answers=["2"]).decision.target == 2
            assert "unknown object 7" in service.call(target=2, x=-1.0, answers=["7 on 2"]).decision.reason
            asked, accepted = action.send(target=2, x=-1.0, answers=["not 1 on 2"])
            status, result = action.result(asked)
            assert accepted and status == SUCCEEDED and result.decision.object == 2
            wait_for(lambda: [each.stage for each in action.feedback(asked)][-1:] == ["deciding"])
            twice, _ = action.send(target=2, x=4.0, y=4.0)
            status, result = action.result(twice)
            assert status == ABORTED and "in one way" in result.decision.reason
        wait_for(lambda: set(action.statuses()) == {CANCELED, SUCCEEDED, ABORTED})
        late = ActionClient(camera, "/cpor/decide", "cpor_msgs/action/Decide")
        wait_for(late.statuses)  # who comes later is told too
        assert last_of(labels).encoding == "mono16"
        assert {each.id for each in last_of(found).detections} == {"1", "2"}
        assert last_of(health).status[0].name == "cpor: decide"
        twice.uuid = [9] * 16
        assert action.result(twice)[0] == UNKNOWN and action.cancel(twice)[0] == UNKNOWN_GOAL


def test_the_action_retrieve_and_its_cancel():
    """The loop as a goal: fetched, refused while busy, and cancelled while the arm moves."""
    table = BoxTable()
    system = System(TableMasks(table), "none")
    attached = (table, LoopSettings(frames_may_repeat=True))
    with node_beside(attached=attached, system=system) as (_, peer, _):
        action = ActionClient(peer, "/cpor/retrieve", "cpor_msgs/action/Retrieve")
        goal, accepted = action.send(target=1, x=-1.0)
        status, result = action.result(goal)
        assert accepted and status == SUCCEEDED and result.retrieved and result.actions == 3
        wait_for(lambda: {each.action for each in action.feedback(goal)} == {"remove", "grasp"})
        wait_for(lambda: action.feedback(goal)[-1].outcome == "done")
        nothing, _ = action.send(x=-1.0)
        assert action.result(nothing)[0] == ABORTED
        table.boxes = stack()
        table.waits_for_stop = True  # each motion lasts until somebody stops it
        goal, accepted = action.send(target=1, x=-1.0)
        wait_for(table.moving.is_set)
        assert action.send(target=1, x=-1.0)[1] is False
        assert action.cancel() == (0, 1)
        status, result = action.result(goal)
        assert status == CANCELED and result.ended == "stopped" and not result.retrieved
        assert table.stopped.is_set() and table.status().state == "stopped"


def test_parameters():
    with node_beside(target=1) as (node, peer, _):

        def client(name):
            return peer.client(f"/cpor/{name}", f"rcl_interfaces/srv/{name.title().replace('_', '')}")

        names = client("list_parameters").call().result.names
        assert names == ["color", "depth", "info", "request", "target", "point", "mode", "max_age_s"]
        get, set_ = client("get_parameters"), client("set_parameters")
        values = get.call(names=["color", "target", "max_age_s", "nothing"]).values
        assert (values[0].string_value, values[1].integer_value, values[2].double_value) == (COLOR, 1, 1.0)
        assert values[3].type == 0
        told = client("describe_parameters").call(names=["mode"]).descriptors[0]
        assert told.type == 4 and "cautious" in told.description
        assert list(client("get_parameter_types").call(names=["point", "color"]).types) == [8, 4]
        results = set_.call(
            parameters=[
                parameter("request", string_value="the red box"),
                parameter("mode", string_value="bold"),
                parameter("mode", string_value="brave"),
                parameter("color", integer_value=3),
                parameter("colour", string_value="/x"),
                parameter("max_age_s", integer_value=2),
                parameter("info", string_value="/camera/info"),
            ]
        ).results
        assert [each.successful for each in results] == [True, True, False, False, False, True, True]
        assert "cautious" in results[2].reason and "must be of type str" in results[3].reason
        assert "there is no parameter" in results[4].reason
        s = node.settings
        assert (s.request, s.target, s.mode, s.max_age_s, s.info) == (
            "the red box",
            None,
            "bold",
            2.0,
            "/camera/info",
        )
        at_once = client("set_parameters_atomically")
        both = [
            parameter("point", double_array_value=[4.0, 5.0]),
            parameter("depth", string_value="no slash"),
        ]
        assert not at_once.call(parameters=both).result.successful and node.settings.point is None
        assert at_once.call(parameters=both[:1]).result.successful and node.settings.point == (4.0, 5.0)


def test_calls_and_goals_are_served_by_plain_types():
    """The client's side of a service and of an action; a reply to another client is left alone."""
    near, peer, goals, came = DdsTransport(DOMAIN), Peer(DOMAIN), [], []
    kind, path = "control_msgs/action/FollowJointTrajectory", "/arm/follow/_action"

    def stopped(_, response):
        response.success, response.message = True, "ü"

    def accept(request, response):
        goals.append(request)
        response.accepted = True

    def over(request, response):
        response.status = ABORTED if list(request.goal_id.uuid) == list(goals[0].goal_id.uuid) else SUCCEEDED
        response.result.error_code, response.result.error_string = -4, "joint 3 left its path"

    stop = Server(peer, "/arm/stop", "std_srvs/srv/Trigger", stopped)
    servers = [
        Server(peer, f"{path}/send_goal", f"{kind}_SendGoal", accept),
        Server(peer, f"{path}/get_result", f"{kind}_GetResult", over),
        Server(peer, f"{path}/cancel_goal", "action_msgs/srv/CancelGoal", lambda request, response: None),
    ]
    try:
        call = near.client("/arm/stop", "std_srvs/srv/Trigger")
        wait_for(call.ready)
        for shift in (1, 0):
            call.send(new("std_srvs/srv/Trigger_Request"), came.append)
            wait_for(lambda shift=shift: stop.serve(shift))
        wait_for(lambda: came)
        assert [(each.success, each.message) for each in came] == [(True, "ü")]
        goal = new(f"{kind}_Goal")
        goal.trajectory.joint_names = ["a", "b"]
        point = new("trajectory_msgs/JointTrajectoryPoint", positions=[0.25, -1.0], velocities=[0.0, 0.5])
        goal.trajectory.points = [point]
        client = GoalClient(near, "/arm/follow", kind)
        status, result = client.run(goal, lambda: [each.serve() for each in servers])
        assert (status, result.error_code, result.error_string) == (ABORTED, -4, "joint 3 left its path")
        heard = goals[0].goal.trajectory
        assert list(heard.joint_names) == ["a", "b"] and list(heard.points[0].positions) == [0.25, -1.0]
    finally:
        near.close()


def test_type_hashes_are_announced():
    near, peer = DdsTransport(DOMAIN), Peer(DOMAIN)
    try:
        near.publish("/hash", "sensor_msgs/Image")
        reader = peer.hear("/hash", "sensor_msgs/msg/Image")
        wait_for(reader.get_matched_publications)
        found = reader.get_matched_publication_data(reader.get_matched_publications()[0])
        assert "typehash=RIHS01_d31d41a9a4c4" in str(found.qos)
    finally:
        near.close()


def test_bytes_that_are_no_request_are_left_alone():
    near, peer, asked = DdsTransport(DOMAIN), Peer(DOMAIN), []
    try:
        near.serve("/odd", "cpor_msgs/srv/Decide", lambda request, reply: asked.append(request))
        client = peer.client("/odd", "cpor_msgs/srv/Decide")
        number = client.ask(target=3)
        wait_for(lambda: asked)
        assert asked[0].target == 3 and not isinstance(asked[0], WireError)
        assert client.reply(number, timeout_s=0.05) is None  # an answer may come later, or never
    finally:
        near.close()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--transport", "pigeon"], "choose one of: dds, rclpy"),
        (["--transport", "rclpy"], "source your ROS 2"),
        (["--live"], "name it with --robot"),
        (["--robot", "nobody"], "unknown robot"),
        (["--depth", "depth"], "must begin with /"),
    ],
)
def test_what_the_command_refuses(options, says):
    if "rclpy" in options and importlib.util.find_spec("rclpy"):
        pytest.skip("rclpy is installed here")
    fixed = ["ros2", "--color", COLOR, "--segmenter", "depth", "--scorer", "none"]
    ran = CliRunner().invoke(app, [*fixed, *options])
    assert ran.exit_code != 0 and says in str(ran.exception)
