"""Commands that speak to other stacks: `export`, `mcp`, `ros2`, `sim --ros2`."""

from pathlib import Path
from typing import Annotated, get_args

import typer

from cpor.cli.options import (
    MORE,
    SERVICE,
    SIMULATE,
    ModelFile,
    ModeName,
    ScorerName,
    SegmenterName,
    make_system,
)
from cpor.cli.serve import TokenEnv, TokenFile, read_token
from cpor.errors import InvalidSettingError, one_of

TRANSPORTS = ("dds", "rclpy")

Domain = Annotated[int, typer.Option(envvar="ROS_DOMAIN_ID", min=0, max=232, help="ROS domain.")]

TransportName = Annotated[
    str, typer.Option(rich_help_panel=MORE, help="dds: no ROS is needed; rclpy: where ROS 2 is installed.")
]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command(rich_help_panel=SIMULATE)(export)
    app.command(rich_help_panel=SERVICE)(mcp)
    app.command(rich_help_panel=SERVICE)(ros2)
    app.command(rich_help_panel=SIMULATE)(sim)


def export(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Folders that runs of the loop were recorded to.")
    ],
    mcap: Annotated[
        Path | None, typer.Option(metavar="FILE.mcap", help="For Foxglove, Rerun and ros2 bag play.")
    ] = None,
    lerobot: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="All runs as a LeRobot data set, one episode each.")
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
    http: Annotated[
        bool, typer.Option("--http", help="Serve over HTTP. (default: standard input and output)")
    ] = False,
    host: Annotated[
        str, typer.Option(help="Address to listen on. Any but this machine's own needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0: any free port.")] = 8322,
    scenes: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Scene folders that the agent may name.")
    ] = None,
    arm: Annotated[bool, typer.Option("--arm", help="Also offer the simulated arm.")] = False,
    segmenter: SegmenterName = None,
    scorer: ScorerName = None,
    model: ModelFile = None,
    eyes: Annotated[
        str,
        typer.Option(
            rich_help_panel=MORE,
            help="What finds the objects for the arm. networks: ours; truth: true masks, no scores.",
        ),
    ] = "networks",
    token_env: TokenEnv = None,
    token_file: TokenFile = None,
) -> None:
    """Offer tools to an agent (MCP): look, decide, explain, plan, what to ask; a simulated arm."""
    from cpor.bridges.agent import AgentTools
    from cpor.bridges.mcp_server import make_mcp_server, serve_mcp
    from cpor.serve.http.settings import ServeSettings

    settings = ServeSettings(host=host, port=port, token=read_token(token_env, token_file))
    tools = AgentTools(make_system(segmenter, scorer, model, None), settings, scenes)
    simulated = None
    if arm:
        from cpor.sim.physics.installed import require_mujoco

        require_mujoco()
        from cpor.bridges.agent_arm import AgentArm
        from cpor.sim.staged_run import Eyes

        simulated = AgentArm(tools, one_of("--eyes", eyes, get_args(Eyes)))
    serve_mcp(make_mcp_server(tools, simulated), settings, http, typer.echo)


def ros2(
    color: Annotated[str, typer.Option(metavar="TOPIC", help="Photographs; .../compressed will do.")],
    depth: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="Depth aligned to them; .../compressedDepth will do.")
    ] = None,
    info: Annotated[str | None, typer.Option(metavar="TOPIC", help="Camera info of the photographs.")] = None,
    request: Annotated[
        str | None, typer.Option(metavar="WORDS", help="Decide on this object in every frame.")
    ] = None,
    target: Annotated[int | None, typer.Option(help="Or on this one, by its id.")] = None,
    point: Annotated[str | None, typer.Option(metavar="X,Y", help="Or on what this pixel shows.")] = None,
    mode: ModeName = None,
    domain: Domain = 0,
    prefix: Annotated[
        str, typer.Option(help="Name of the node; its topics, services and actions begin with it.")
    ] = "/cpor",
    max_age_s: Annotated[
        float, typer.Option(help="Pictures older than so many seconds are not answered from.")
    ] = 1.0,
    robot: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Offer the action retrieve with this robot, as cpor retrieve does."
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE.toml", help="Options of the robot and of the loop.")
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Goals of retrieve move the arm. (default: a dry run)")
    ] = False,
    transport: TransportName = "dds",
    segmenter: SegmenterName = None,
    scorer: ScorerName = None,
    model: ModelFile = None,
) -> None:
    """Run a ROS 2 node, without rclpy: objects, decision, annotated picture; a service and actions."""
    from cpor.bridges.ros2_camera import open_transport
    from cpor.bridges.ros2_node import DecideNode, spin
    from cpor.bridges.ros2_parameters import NodeSettings
    from cpor.robot.robot_file import open_robot, read_robot_file
    from cpor.words.grounding import parse_point

    place = None if point is None else parse_point(point)
    settings = NodeSettings(color, depth, info, prefix, request, target, place, max_age_s)
    one_of("--transport", transport, TRANSPORTS)
    if robot is None and (config is not None or live):
        raise InvalidSettingError("--config and --live are about a robot; name it with --robot")
    system = make_system(segmenter, scorer, model, mode)
    attached = None
    if robot is not None:
        options, loop = read_robot_file(config)
        attached = (open_robot(robot, options, live), loop)
    node = DecideNode(open_transport(transport, domain, prefix), settings, system, attached)
    typer.echo(f"Listening to {color} in domain {domain}; answers on {prefix}/decision  (Ctrl-C ends it)")
    spin(node, typer.echo)


def sim(
    ros2: Annotated[bool, typer.Option("--ros2", help="As a ROS 2 graph, the only way so far.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Random seed for the heap and the camera noise.")] = 0,
    tier: Annotated[str, typer.Option(help="How deep one object lies: easy, medium, hard or any.")] = "any",
    sensor: Annotated[
        str, typer.Option(rich_help_panel=MORE, help="Camera faults; none: a perfect one.")
    ] = "default",
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
