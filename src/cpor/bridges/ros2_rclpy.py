"""The transport of the ROS 2 node over rclpy, where ROS 2 is installed and `cpor_msgs` is built.

Messages cross as bytes, which `ros2_messages` reads and writes as it does over DDS.
"""

import importlib
import threading
from collections.abc import Callable
from typing import Any

from cpor.bridges.ros2_messages import RosMessage, decode, encode, full_name
from cpor.bridges.ros2_transport import CameRaw, OnAnswers, OnReply, Publisher, ServiceClient, Transport
from cpor.errors import MissingExtraError


class RclpyTransport(Transport):
    """The middleware over rclpy: a node of its own, named like `/cpor`, and a thread that spins it."""

    def __init__(self, name: str = "/cpor", domain: int = 0) -> None:
        try:
            import rclpy
            from rclpy.executors import SingleThreadedExecutor
            from rclpy.node import Node
        except ImportError:
            raise MissingExtraError(
                "rclpy is not installed; source your ROS 2, or use the transport dds, which needs none"
            ) from None
        self._context = rclpy.Context()
        rclpy.init(context=self._context, domain_id=domain)
        namespace, _, node = name.rpartition("/")
        options = {"namespace": namespace or "/", "context": self._context}
        self._node: Any = Node(node, start_parameter_services=False, **options)
        self._executor: Any = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)
        self._thread = threading.Thread(target=self._executor.spin, name="cpor-rclpy", daemon=True)
        self._thread.start()

    def _hear_raw(self, topic: str, kind: str, came: CameRaw, latched: bool) -> Callable[[], None]:
        from rclpy.qos import qos_profile_sensor_data

        def heard(raw: bytes, info: Any) -> None:
            came(raw, int(info["source_timestamp"]))

        quality = _quality(10, latched) if latched else qos_profile_sensor_data
        made = self._node.create_subscription(_message(kind), topic, heard, quality, raw=True)
        return lambda: self._node.destroy_subscription(made)

    def publish(self, topic: str, kind: str, latched: bool = False) -> Publisher:
        """Speak on a topic."""
        made = self._node.create_publisher(_message(kind), topic, _quality(1 if latched else 10, latched))
        return Publisher(kind, made.publish, lambda: bool(made.get_subscription_count()))

    def serve(self, name: str, kind: str, answers: OnAnswers) -> None:
        """Answer calls."""
        from rclpy.serialization import deserialize_message, serialize_message
        from rclpy.task import Future

        made = _service(kind)

        async def called(request: Any, _: Any) -> Any:
            answered: Any = Future(executor=self._executor)
            answers(decode(serialize_message(request), f"{kind}_Request"), answered.set_result)
            response = await answered
            return deserialize_message(encode(response, f"{kind}_Response"), made.Response)

        self._node.create_service(made, name, called)

    def client(self, name: str, kind: str) -> ServiceClient:
        """Call a service."""
        from rclpy.serialization import deserialize_message, serialize_message

        service = _service(kind)
        client = self._node.create_client(service, name)

        def send(request: RosMessage, reply: OnReply) -> None:
            message = deserialize_message(encode(request, f"{kind}_Request"), service.Request)

            def came(future: Any) -> None:
                reply(decode(serialize_message(future.result()), f"{kind}_Response"))

            client.call_async(message).add_done_callback(came)

        return ServiceClient(send, lambda: bool(client.service_is_ready()))

    def close(self) -> None:
        """End the node."""
        self._executor.shutdown()
        self._thread.join()
        self._node.destroy_node()
        self._context.try_shutdown()


def _quality(depth: int, latched: bool) -> Any:
    """The quality of service of a reliable topic."""
    from rclpy.qos import DurabilityPolicy, QoSProfile

    kept = DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE
    return QoSProfile(depth=depth, durability=kept)


def _message(kind: str) -> Any:
    """The class of ROS 2 for a message; those of an action stand inside it."""
    action, ends, _ = kind.partition("_FeedbackMessage")
    return _interface(action).Impl.FeedbackMessage if ends else _interface(full_name(kind))


def _service(kind: str) -> Any:
    """The class of ROS 2 for a service; those of an action stand inside it."""
    for part in ("SendGoal", "GetResult"):
        if "/action/" in kind and kind.endswith(f"_{part}"):
            return getattr(_interface(kind.removesuffix(f"_{part}")).Impl, f"{part}Service")
    return _interface(kind)


def _interface(name: str) -> Any:
    """The class of ROS 2 with a full name: a message, service or action."""
    package, folder, stem = name.split("/")
    try:
        return getattr(importlib.import_module(f"{package}.{folder}"), stem)
    except (ImportError, AttributeError):
        raise MissingExtraError(
            f"{name} is not built for ROS 2; build or install the package {package}, see docs/ros2.md"
        ) from None
