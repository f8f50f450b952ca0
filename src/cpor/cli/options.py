"""Options that several commands share, and what they stand for."""

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cpor.cli.first_use import start_loops
from cpor.errors import InvalidSettingError, one_of

if TYPE_CHECKING:
    from cpor.perception.segmenter import Segmenter
    from cpor.scene import PixelPoint
    from cpor.system import System
    from cpor.view import View
    from cpor.words.grounding_answers import Request

DECIDE = "Decide"
SEE = "See and ask"
LEARN = "Learn from your scenes"
DATA_SETS = "Whole data sets and the paper"
SIMULATE = "Simulate and run"
SERVICE = "Service"
"""Groups of commands in `cpor --help`."""

PICTURES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp")
"""Suffixes of files that are no bags, which need no reader of bags."""

MORE = "More options"
"""Below the options that most calls need."""


def opt(text: str, *names: str, **settings: Any) -> Any:
    """An option with its help."""
    return typer.Option(*names, help=text, **settings)


def arg(metavar: str, text: str) -> Any:
    """An argument with its help."""
    return typer.Argument(metavar=metavar, help=text)


def more(text: str, *names: str, **settings: Any) -> Any:
    """An option that few calls need."""
    return opt(text, *names, rich_help_panel=MORE, **settings)


AsJson = Annotated[bool, opt("Print JSON for programs.", "--json")]
ModeName = Annotated[str | None, opt("Risk: robust, cautious, balanced, bold. (default: cautious)", "--mode")]
Tau = Annotated[float | None, more("Act above this probability of being right, instead of --mode.")]
Workspace = Annotated[
    str | None,
    opt(
        "Polygon in pixels; only objects inside it can be asked for. (default: as camera.json says)",
        metavar='"X,Y X,Y X,Y ..."',
    ),
]
SegmenterName = Annotated[
    str | None,
    more(
        "Segmenter: embedded, depth, another name, or module:attribute. (default: the masks of "
        "the folder, else embedded)",
        "--segmenter",
    ),
]
MasksFile = Annotated[Path | None, more("Masks of another program: COCO JSON, npz, label PNG, BOP folder.")]
WeightsFile = Annotated[Path | None, more("ONNX network for the embedded segmenter.")]
IgnoreGiven = Annotated[bool, more("Find the objects although there are masks.", "--ignore-given-masks")]
SourceNames = Annotated[
    list[str] | None,
    more("A further source of belief: a name, or module:attribute. Repeat it for more.", "--source"),
]
ScorerName = Annotated[
    str | None,
    more(
        "Relation scorer: a name, a TOML file, module:attribute, or none. (default: scores.json "
        "of the folder, else our network)"
    ),
]
ModelFile = Annotated[str | None, more("Model file, or none. (default: the bundled model for such scores)")]
PipelineName = Annotated[
    str,
    more(
        "Pipeline: default, or paper (its formulas and settings, nothing of ours; --model then "
        "names a file of `cpor fit --pipeline paper`)."
    ),
]
DepthUnit = Annotated[float | None, more("Metres per step of depth. (default: camera.json, else guessed)")]
ColorTopic = Annotated[
    str | None, opt("Photographs in a bag. (default: found by type)", "--color", metavar="TOPIC")
]
DepthTopic = Annotated[
    str | None, opt("Depth in a bag. (default: found by type)", "--depth", metavar="TOPIC")
]
AtTime = Annotated[
    float | None, opt("Time since the start of the bag. (default: the first)", "--at", metavar="SECONDS")
]
FrameNumber = Annotated[
    int | None, opt("Which frame of a folder or bag, from 0. (default: the first)", "--frame", min=0)
]
WorkersOption = Annotated[int, opt("Number of worker processes. The result is the same for any number.")]
EngineOption = Annotated[str, more("Where workers run: local, or ray (the cluster of RAY_ADDRESS).")]
MethodName = Annotated[str, more("Inference: auto, exact, topk (the paper's) or milp (its solver).")]
RerunOption = Annotated[Path | None, more("Also write a Rerun recording.", "--rerun", metavar="FILE.rrd")]


EyesName = Annotated[str, more("networks: ours find and score; truth: true masks, no scores.")]
Host = Annotated[str, opt("Address to listen on. Any but this machine's own needs a token.")]
Port = Annotated[int, opt("Port to listen on; 0: any free port.")]
OpenPage = Annotated[bool, opt("Open the page in a browser.", "--open/--no-open")]


@dataclass(frozen=True)
class Asked:
    """Options for the object asked for; see `with_groups`."""

    target: Annotated[int | None, opt("Id of the object asked for.")] = None
    point: Annotated[str | None, opt("A pixel that shows the object asked for.", metavar="X,Y")] = None
    request: Annotated[str | None, opt("The object asked for, in words.", metavar="WORDS")] = None

    def asked(self) -> "Request":
        """The request that the options name."""
        from cpor.words.grounding import parse_point
        from cpor.words.grounding_answers import Request

        return Request(self.target, None if self.point is None else parse_point(self.point), self.request)


def parse_workspace(text: str) -> "tuple[PixelPoint, ...]":
    """A polygon written as `X,Y X,Y X,Y ...` in pixels."""
    from cpor.words.grounding import parse_point

    corners = tuple(parse_point(each) for each in text.split())
    if len(set(corners)) < 3:
        raise InvalidSettingError(
            f'--workspace is {text!r}; give at least 3 different corners, such as "100,50 500,50 500,400"'
        )
    return corners


@dataclass(frozen=True)
class Given:
    """Options for the input and the segmenter; see `with_groups`."""

    workspace: Workspace = None
    frame: FrameNumber = None
    color: ColorTopic = None
    depth: DepthTopic = None
    at: AtTime = None
    segmenter: SegmenterName = None
    masks: MasksFile = None
    weights: WeightsFile = None
    ignore_given_masks: IgnoreGiven = False
    depth_unit_m: DepthUnit = None

    def choose_segmenter(self) -> "Segmenter | str | None":
        """The segmenter that the options ask for; None: the masks of the scene, else ours."""
        from cpor.perception.segmenter import DEFAULT, make_segmenter

        ways = (("reads --masks", self.masks, "file"), ("takes --weights", self.weights, DEFAULT))
        for what, file, only in ways:
            if file is None:
                continue
            if self.segmenter not in (None, only):
                raise InvalidSettingError(
                    f"only the segmenter `{only}` {what}, not {self.segmenter!r}; drop one of the two"
                )
            return make_segmenter(only, path=file)
        return DEFAULT if self.segmenter is None and self.ignore_given_masks else self.segmenter


@dataclass(frozen=True)
class SystemOptions:
    """Options for what scores and calibrates; see `with_groups`."""

    mode: ModeName = None
    scorer: ScorerName = None
    model: ModelFile = None
    sources: SourceNames = None
    pipeline: PipelineName = "default"

    def make(self, segmenter: "Segmenter | str | None") -> "System":
        """The system that the options describe."""
        model, _ = choose_pipeline(self.pipeline, self.model)
        start_loops()
        from cpor.learn.modes import DEFAULT_MODE
        from cpor.system import System

        mode = self.mode or DEFAULT_MODE
        return System(segmenter, self.scorer, model, mode, sources=self.sources or ())


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of its parameters that are dataclasses, such as `Given`, in their place."""
    own = inspect.signature(command)
    groups: dict[str, Any] = {
        name: each.annotation for name, each in own.parameters.items() if is_dataclass(each.annotation)
    }
    options = {name: inspect.signature(group).parameters for name, group in groups.items()}

    def call(**values: Any) -> None:
        made = {name: group(**{k: values.pop(k) for k in options[name]}) for name, group in groups.items()}
        command(**values, **made)

    listed = [
        one for name, each in own.parameters.items() for one in (options.get(name) or {name: each}).values()
    ]
    call.__name__, call.__doc__ = command.__name__, command.__doc__
    call.__signature__ = own.replace(  # type: ignore[attr-defined]
        parameters=[each.replace(kind=each.KEYWORD_ONLY) for each in listed]
    )
    return call


def look(system: "System", source: list[Path], given: Given) -> "View":
    """What a system sees in a folder, in a photograph and its depth, in a bag, or through a camera."""
    corners = None if given.workspace is None else parse_workspace(given.workspace)
    if looks_like_bag(source[0]):
        return _look_into_bag(system, source, given, corners)
    if (given.color, given.depth, given.at) != (None, None, None):
        raise InvalidSettingError(
            f"--color, --depth and --at are for bags, and {source[0]} is none; drop them"
        )
    if len(source) > 2:
        raise InvalidSettingError("give a folder, or a photograph and at most one depth image")
    if (name := camera_name(source)) is not None:
        if given.depth_unit_m is not None or given.frame is not None:
            raise InvalidSettingError(
                "a camera knows its unit and its frame; drop --depth-unit-m and --frame"
            )
        from cpor.robot.cameras import opened_camera

        with opened_camera(name) as camera:
            return system.look(camera.frame(), workspace=corners)
    depth = source[1] if len(source) == 2 else None
    return system.look(
        source[0], depth, depth_unit_m=given.depth_unit_m, workspace=corners, frame=given.frame
    )


def camera_name(source: list[Path]) -> str | None:
    """The camera that is meant by `camera:NAME[=WHICH]`, or by a name where no file has it; None: files."""
    from cpor.plugins import CAMERAS, list_plugins

    text = str(source[0])
    if len(source) == 1 and text.startswith("camera:"):
        return text.removeprefix("camera:")
    known = len(source) == 1 and text in list_plugins(CAMERAS) and not source[0].exists()
    return text if known else None


def looks_like_bag(path: Path) -> bool:
    """Whether a path is a bag, by its name or by what its folder holds."""
    if path.suffix.lower() in PICTURES and path.is_file():
        return False
    from cpor.bridges.bags import is_bag

    return is_bag(path)


def _look_into_bag(
    system: "System", source: list[Path], given: Given, corners: "tuple[PixelPoint, ...] | None"
) -> "View":
    from cpor.bridges.bags import open_bag

    if len(source) > 1:
        raise InvalidSettingError("give one bag alone; --depth names the topic of its depth")
    bag = open_bag(source[0], given.color, given.depth)
    number = given.frame
    if number is not None and (given.at is not None or number >= len(bag.frames)):
        raise InvalidSettingError(f"--frame must be below {len(bag.frames)}, and goes without --at")
    frame = bag.at(given.at) if number is None else bag.frames[number]
    view = system.look(bag.read(frame, given.depth_unit_m), workspace=corners)
    seen = (
        f"Frame {frame.number} of {len(bag.frames)} of {bag.path.name}, {frame.time_s:.2f} s after it began."
    )
    return replace(view, notes=(seen, *bag.notes, *view.notes))


def choose_pipeline(pipeline: str, model: str | None, method: str = "auto") -> tuple[str | None, str]:
    """The model and the method of inference that a pipeline stands for, where neither is named."""
    if one_of("--pipeline", pipeline, ("default", "paper")) == "default":
        return model, method
    from cpor.paper_model import PAPER_FILE

    return model or str(PAPER_FILE), "topk" if method == "auto" else method


def require_parent(out: Path) -> None:
    """Refuse a file to write in a folder that does not exist, before any work is done for it."""
    if not out.parent.is_dir():
        raise InvalidSettingError(
            f"the folder {out.parent} does not exist; create it, or choose another --out"
        )


def print_result(as_json: bool, content: Callable[[], object], table: Callable[[], object]) -> None:
    """Print a result: JSON for programs, or a table for people."""
    if as_json:
        print_json(content())
    else:
        print_rich(table())


def print_json(content: object) -> None:
    """Print JSON for programs."""
    typer.echo(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False))


def print_rich(*renderables: object) -> None:
    """Print for people, one below the other."""
    from rich.console import Console

    Console().print(*renderables, sep="\n")
