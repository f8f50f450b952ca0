"""Commands that speak to other stacks: `export`, `mcp`, `ros2`, `sim --ros2`."""

from pathlib import Path
from typing import Annotated, get_args

import typer

from cpor.cli import options as cli
from cpor.cli.serve import TokenEnv, TokenFile, read_token
from cpor.errors import InvalidSettingError, one_of

TRANSPORTS = ("dds", "rclpy")

Domain = Annotated[int, cli.opt("ROS domain.", envvar="ROS_DOMAIN_ID", min=0, max=232)]

TransportName = Annotated[str, cli.more("dds: no ROS is needed; rclpy: where ROS 2 is installed.")]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command(rich_help_panel=cli.SIMULATE)(export)
    app.command(rich_help_panel=cli.SERVICE)(cli.with_groups(mcp))
    app.command(rich_help_panel=cli.SERVICE)(cli.with_groups(ros2))
    app.command(rich_help_panel=cli.SIMULATE)(sim)


def export(
    runs: Annotated[list[Path], cli.arg("RUN...", "Folders that runs of the loop were recorded to.")],
    mcap: Annotated[Path | None, cli.opt("For Foxglove, Rerun, ros2 bag play.", metavar="FILE.mcap")] = None,
    lerobot: Annotated[
        Path | None, cli.opt("A LeRobot data set, an episode a run.", metavar="FOLDER")
    ] = None,
) -> None:
    """Write recorded runs of the loop in the form of other programs."""
    from cpor.robot.run_folder import read_run

    if mcap is None and lerobot is None:
        raise InvalidSettingError("nothing to write; give --mcap FILE.mcap or --lerobot FOLDER")
    if mcap is not None and len(runs) > 1:
        raise InvalidSettingError("an MCAP file holds one run; give one, or drop --mcap")
    recorded = [read_run(run) for run in runs]
    if mcap is not None:
        from cpor.bridges.mcap_run import write_run_mcap

        count = write_run_mcap(recorded[0], mcap)
        typer.echo(f"{len(recorded[0].cycles)} cycles, {count} messages. Wrote {mcap}.")
    if lerobot is not None:
        from cpor.bridges.lerobot import write_lerobot

        typer.echo(f"{len(recorded)} episodes, {write_lerobot(recorded, lerobot)} frames. Wrote {lerobot}.")


def mcp(
    parts: cli.SystemOptions,
    http: Annotated[bool, cli.opt("Serve over HTTP. (default: standard input and output)", "--http")] = False,
    host: cli.Host = "127.0.0.1",
    port: cli.Port = 8322,
    scenes: Annotated[Path | None, cli.opt("Scene folders the agent may name.", metavar="FOLDER")] = None,
    arm: Annotated[bool, cli.opt("Also offer the simulated arm.", "--arm")] = False,
    segmenter: cli.SegmenterName = None,
    eyes: cli.EyesName = "networks",
    token_env: TokenEnv = None,
    token_file: TokenFile = None,
) -> None:
    """Offer tools to an agent (MCP): look, decide, explain, plan, what to ask; a simulated arm."""
    from cpor.bridges.agent import AgentTools
    from cpor.bridges.mcp_server import make_mcp_server, serve_mcp
    from cpor.serve.http.settings import ServeSettings

    settings = ServeSettings(host=host, port=port, token=read_token(token_env, token_file))
    tools = AgentTools(parts.make(segmenter), settings, scenes)
    simulated = None
    if arm:
        from cpor.sim.physics.installed import require_mujoco

        require_mujoco()
        from cpor.bridges.agent_arm import AgentArm
        from cpor.sim.staged_run import Eyes

        simulated = AgentArm(tools, one_of("--eyes", eyes, get_args(Eyes)))
    serve_mcp(make_mcp_server(tools, simulated), settings, http, typer.echo)


def ros2(
    asks: cli.Asked,
    parts: cli.SystemOptions,
    color: Annotated[str, cli.opt("Photographs; .../compressed will do.", metavar="TOPIC")],
    depth: Annotated[
        str | None, cli.opt("Aligned depth; .../compressedDepth will do.", metavar="TOPIC")
    ] = None,
    info: Annotated[str | None, cli.opt("Camera info of the photographs.", metavar="TOPIC")] = None,
    domain: Domain = 0,
    prefix: Annotated[str, cli.opt("Name of the node; its topics and services begin with it.")] = "/cpor",
    max_age_s: Annotated[float, cli.opt("Pictures older than so many seconds are not answered from.")] = 1.0,
    robot: Annotated[
        str | None, cli.opt("Offer the action retrieve with this robot.", metavar="NAME")
    ] = None,
    config: Annotated[Path | None, cli.opt("Options of robot and loop.", metavar="FILE.toml")] = None,
    live: Annotated[bool, cli.opt("Goals of retrieve move the arm. (default: a dry run)", "--live")] = False,
    transport: TransportName = "dds",
    segmenter: cli.SegmenterName = None,
) -> None:
    """Run a ROS 2 node, without rclpy: objects, decision, annotated picture; a service and actions."""
    from cpor.bridges.ros2_camera import open_transport
    from cpor.bridges.ros2_node import DecideNode, spin
    from cpor.bridges.ros2_parameters import NodeSettings
    from cpor.robot.robot_file import open_robot, read_robot_file

    asked = asks.asked()
    settings = NodeSettings(color, depth, info, prefix, asked.words, asked.id, asked.point, max_age_s)
    one_of("--transport", transport, TRANSPORTS)
    if robot is None and (config is not None or live):
        raise InvalidSettingError("--config and --live are about a robot; name it with --robot")
    system = parts.make(segmenter)
    attached = None
    if robot is not None:
        options, loop = read_robot_file(config)
        attached = (open_robot(robot, options, live), loop)
    node = DecideNode(open_transport(transport, domain, prefix), settings, system, attached)
    typer.echo(f"Listening to {color} in domain {domain}; answers on {prefix}/decision  (Ctrl-C ends it)")
    spin(node, typer.echo)


def sim(
    ros2: Annotated[bool, cli.opt("As a ROS 2 graph, the only way so far.", "--ros2")] = False,
    seed: Annotated[int, cli.opt("Random seed for the heap and the camera noise.", min=0)] = 0,
    tier: Annotated[str, cli.opt("How deep one object lies: easy, medium, hard or any.")] = "any",
    sensor: Annotated[str, cli.more("Camera faults; none: a perfect one.")] = "default",
    domain: Domain = 0,
    transport: TransportName = "dds",
) -> None:
    """Start the simulated arm in a process of its own, as the driver of a real one; Ctrl-C ends it."""
    import time
    from importlib.resources import files

    from cpor.sim.physics.installed import require_mujoco

    if not ros2:
        raise InvalidSettingError("say --ros2; in one process it is: cpor retrieve --robot simulated")
    one_of("--transport", transport, TRANSPORTS)
    require_mujoco()
    from cpor.bridges.ros2_camera import open_transport
    from cpor.bridges.ros2_sim import SimulatedGraph
    from cpor.cli.sim import parse_tier
    from cpor.sim.arm.simulated_robot import build

    robot = build(seed, parse_tier(tier, "any"), sensor)
    graph = SimulatedGraph(open_transport(transport, domain, "/cpor_sim"), robot)
    config = files("cpor.bridges") / "simulated_ur3e.toml"
    typer.echo(
        f"The arm runs in domain {domain}. Drive it with: cpor retrieve --robot ros2 --config {config}"
    )
    try:
        while True:
            time.sleep(1.0)
    except KeyboardInterrupt:
        graph.close()
