"""The tools of an agent on the wire: an MCP server, over standard input and output or over HTTP.

Needs the extra `mcp`. Over HTTP the token and host rules are those of `cpor serve`.
"""

import asyncio
import functools
import inspect
import itertools
import json
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cpor import __version__
from cpor.bridges.agent import AgentTools, Told
from cpor.errors import CporError, RobotError, SimulationError, needing
from cpor.serve.http.settings import ServeSettings

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer
    from starlette.types import ASGIApp, Receive, Scope, Send

    from cpor.bridges.agent_arm import AgentArm

_LOG = logging.getLogger("cpor.serve")

PROGRESS_S = 1.0
"""How often a call that takes longer reports progress, to a client that wants it. [s]"""

PICTURE_URI = "cpor://views/{view}/picture.webp"

_STATES = """\
`state` is one of three. not_obstructed: grasp it. obstructed: remove the object that `action` names first,
then look again. no_answer: do not move anything; ask a person, or look again from elsewhere."""

_PROMISE = """\
`promise` is a tested error rate: of the actions taken under it at most a share `alpha` is wrong, with the
given confidence, in scenes like those it was tested on. Null: nothing is promised, and `notes` say why."""

INSTRUCTIONS = f"""\
Before a robot grasps an object in clutter, ask here whether it may: look at the picture, then decide.
{_STATES} Never read no_answer, an error or a refusal as free to grasp.
{_PROMISE}"""

_TOOLS = {
    "look": """\
Find the objects of a picture. Give `rgb` (PNG, JPEG or WebP as base64) and, better, `depth` (16-bit PNG
registered to it, base64); or the name of a `scene` folder that this server was given. Gives a `view` for the
other tools, the objects with a pixel `point` of each, doubts about the picture, and the picture with ids.""",
    "decide": f"""\
May this object be grasped now? Say which by `target` (id), `point` (x, y) or `request` (words).
{_STATES}
{_PROMISE} Modes `balanced` and `bold` take more risk, `robust` less, all
without a promise. `odds_factor`: how far all probabilities may be off, in odds, before it would not act.
`ask` is the question to a person that helps most; give the reply to `answer`. `answers` are replies that are
known already, in order: yes, no, "1 on 7" (1 obstructs 7), "not 1 on 7", "3" (it is meant), "not 3".""",
    "answer": """\
Decide again after a reply of a person: `says` is yes or no to the last `ask`, or a correction: "1 on 7" (1
obstructs 7), "not 1 on 7", "3" (that one is meant), "not 3", or other words for the object. Gives what decide
gives. Pass on what the person said; never answer in its place.""",
    "correct": """\
Correct what was seen, as a person says: `correction` is {"tool": "delete", "object": 3}, {"tool": "rename",
"object": 3, "name": "mug"}, {"tool": "add", "point": [x, y]}, {"tool": "merge", "objects": [1, 2]}, {"tool":
"split", "object": 3, "a": [x, y], "b": [x, y]} or {"tool": "relate", "blocked": 7, "blocker": 1, "p": 1.0}.
Decides again where something was asked.""",
    "follow": """\
Decide again in the next picture of the same camera, for what was asked in `view`: objects keep their ids, and
the look before counts as evidence. Takes `rgb` and `depth` as look does. Gives a new `view` and what decide
gives. Replies of a person to the picture before do not count here.""",
    "explain": """\
Why it was decided so, and which relation would have to be otherwise to change it. Takes what decide does.""",
    "plan": """\
The sequence of removals that most likely leads to the target, with the probability that it holds. Only the
first step is worth acting on: look and decide again after each.""",
    "what_to_ask": """\
The one question to a person that would help this decision most; none where no answer about a pair would
change what to do. Where it is not clear which object is meant, it asks that. Give the reply to `answer`.""",
}
_ARM = {
    "arm_reset": "Put a new heap before the simulated arm; gives the first look and what is asked for.",
    "arm_look": "Take a picture with the simulated arm's camera; gives a `view`. Look after each action.",
    "arm_act": """\
Let the simulated arm do what decide says for `target` in the newest view. It does not move where the state
is no_answer, and refuses an older view.""",
    "arm_stop": "Stop the simulated arm at once, also while arm_act is under way.",
    "arm_home": "Bring the simulated arm home; clears a stop.",
    "arm_status": "How the simulated arm is; never moves it.",
}


def make_mcp_server(tools: AgentTools, arm: "AgentArm | None" = None) -> "MCPServer[Any]":
    """The server; `Client(server)` of the same SDK talks to it in this process."""
    with needing("mcp", "an MCP server needs the SDK"):
        from mcp.server.mcpserver import MCPServer
        from mcp.server.mcpserver.exceptions import ResourceNotFoundError
    server: MCPServer[Any] = MCPServer(
        "cpor",
        title="CPOR-Grasp",
        instructions=INSTRUCTIONS,
        version=__version__,
        log_level="WARNING",
        subscriptions=False,  # their streams have no end
    )
    logging.getLogger("mcp").setLevel(logging.WARNING)
    for owner, says in ((tools, _TOOLS), (arm, _ARM)):
        for name, what in says.items() if owner is not None else ():
            call = _on_wire(getattr(owner, name.removeprefix("arm_")))
            server.add_tool(call, name, description=what, structured_output=False)

    @server.resource(
        PICTURE_URI,
        name="picture",
        title="A look, drawn",
        description="The photograph of a `view` with the numbers of its objects.",
        mime_type="image/webp",
    )
    def picture(view: str) -> bytes:
        try:
            return tools.picture(view)
        except CporError as error:
            raise ResourceNotFoundError(str(error)) from error

    return server


def serve_mcp(
    server: "MCPServer[Any]", settings: ServeSettings, http: bool, tell: Callable[[str], None]
) -> None:
    """Serve until interrupted, over HTTP or over standard input and output; `tell` prints a line."""
    if not http:
        server.run("stdio")
        return
    from cpor.serve.http.server import listening, run_server

    with listening(settings) as listener:
        run_server(http_app(server, settings), listener, lambda at: tell(f"MCP at {at}mcp  (Ctrl-C ends it)"))


def http_app(server: "MCPServer[Any]", settings: ServeSettings) -> "ASGIApp":
    """The server as an ASGI application behind the guards of the web service."""
    from mcp.server.transport_security import TransportSecuritySettings
    from starlette.responses import Response

    from cpor.serve.http.request_limits import MCP_PATH, guarded, most_mcp_bytes

    app = server.streamable_http_app(
        streamable_http_path=MCP_PATH,
        stateless_http=True,
        max_request_body_size=most_mcp_bytes(settings),
        # The gate checks host and origin, as for every other request.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )

    async def without_streams(scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Refuse GET: its stream would stay open for ever, and this server sends nothing unasked."""
        if scope["type"] == "http" and scope["method"] not in ("POST", "DELETE"):
            await Response(status_code=405, headers={"Allow": "POST, DELETE"})(scope, receive, send)
            return
        await app(scope, receive, send)

    return guarded(without_streams, settings)


def _on_wire(call: Callable[..., Told]) -> Callable[..., Any]:
    """A tool as the SDK wants it: text and a picture, errors of ours in their own words, and progress."""
    import anyio
    from mcp.server.mcpserver import Context, Image
    from mcp.server.mcpserver.exceptions import ToolError

    from cpor.serve.http.refusals import Failed, as_refusal, say_refusal

    async def report(context: Context) -> None:
        for second in itertools.count(1):
            await asyncio.sleep(PROGRESS_S)
            await context.report_progress(second * PROGRESS_S, None, f"{call.__name__}: working")

    def called(arguments: dict[str, Any]) -> Told:
        try:
            return call(**arguments)
        except (RobotError, SimulationError) as error:  # of the simulated arm; they name no file
            raise ToolError(str(error)) from error
        except CporError as error:
            refusal = as_refusal(error)
            if isinstance(refusal, Failed):
                _LOG.error("failed: %s", error)
            raise ToolError(say_refusal(refusal).message) from error

    @functools.wraps(call)
    async def told(*, context: Context, **arguments: Any) -> list[Any]:
        reporting = asyncio.create_task(report(context))
        try:
            said = await anyio.to_thread.run_sync(called, arguments)
        finally:
            reporting.cancel()
        text = json.dumps(said.content, ensure_ascii=False, allow_nan=False)
        return [text] if said.picture is None else [text, Image(data=said.picture, format="webp")]

    given = inspect.signature(call)
    extra = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=Context)
    told.__signature__ = given.replace(parameters=[*given.parameters.values(), extra])  # type: ignore[attr-defined]
    told.__annotations__ = call.__annotations__ | {"context": Context}
    del told.__annotations__["return"]
    return told
