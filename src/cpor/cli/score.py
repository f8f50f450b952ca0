"""The commands `score` and `scorers`: ask a model about a scene, and see which models can be asked."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cpor.cli import options as cli
from cpor.errors import InvalidSettingError, SceneFileError

if TYPE_CHECKING:
    from rich.table import Table

    from cpor.scene import Scene
    from cpor.semantics.scorer import RelationScorer, ScoredPairs


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command(rich_help_panel=cli.SEE)(score)
    app.command(rich_help_panel=cli.SEE)(scorers)


def score(
    scene: Annotated[Path, cli.arg("SCENE", "Scene folder.")],
    scorer: Annotated[str, cli.opt("A scorer, its TOML file, or module:attribute; see `cpor scorers`.")],
    out: Annotated[
        Path | None, cli.opt("File for scores, replies beside it. (default: in the scene)")
    ] = None,
    all_pairs: Annotated[bool, cli.more("Ask about every pair.", "--all-pairs")] = False,
    calls: Annotated[int | None, cli.opt("Make at most so many calls.", min=0)] = None,
    cache: Annotated[bool, cli.more("Keep replies on disk.")] = True,
    record: Annotated[Path | None, cli.more("Record the replies, to replay them offline.")] = None,
    picture: Annotated[Path | None, cli.more("Write the picture that the model sees.")] = None,
    as_json: cli.AsJson = False,
) -> None:
    """Ask a scorer which objects of a scene obstruct which; a pair without an answer is null.

    The exit code is 1 if no question was answered. Older scores are kept then.
    """
    from cpor.io.frame_files import read_input
    from cpor.io.scene_folder import encode_scene
    from cpor.io.whole_files import write_bytes
    from cpor.scene import BlockedBy
    from cpor.semantics.badges import draw_marks

    _require_scene_folder(scene)
    found = read_input(scene)[0]
    asked = _make_scorer(scorer, calls, cache, record)
    goal = out or scene / "scores.json"
    if goal.is_dir() or not goal.parent.is_dir():  # found out before anything is asked, and paid for
        raise InvalidSettingError(f"cannot write {goal}; choose a file in a folder that exists, with --out")
    if found.visible_ids is None:
        found = _find_masks(found, scene, as_json)
    everyone = (BlockedBy(a, b) for a in found.ids for b in found.ids if a != b)
    pairs = tuple(everyone) if all_pairs else asked.pairs(found)
    if picture is not None:
        write_bytes(picture, draw_marks(found)[0].png)
    said = asked.score(found, pairs)
    answered = len(said.scores) - len(said.unanswered)
    in_vain = bool(said.scores) and not answered
    kept = in_vain and goal.exists()
    if not kept:
        files = encode_scene(_scored(found, said, asked))
        write_bytes(goal, files["scores.json"])
        if goal == scene / "scores.json":
            write_bytes(scene / "sources.json", files["sources.json"])
    write_bytes(goal.with_suffix(".replies.json"), replies_file(said))
    if as_json:
        summary: dict[str, object] = {"scorer": said.scorer, "scores": str(goal), "pairs": len(said.scores)}
        summary["unanswered"] = [list(pair) for pair in said.unanswered]
        cli.print_json(summary | {"spent": asdict(said.spent), "problems": list(said.problems)})
    else:
        where = f"{goal} was not changed" if kept else f"the scores are in {goal}"
        typer.echo(f"{asked.name} answered {answered} of {len(said.scores)} questions; {where}")
        _print_spent(said, goal)
    if in_vain:
        raise typer.Exit(1)


def _make_scorer(name: str, calls: int | None, cache: bool, record: Path | None) -> "RelationScorer":
    """The scorer, with the budget and the memory that the options say."""
    from cpor.semantics.replay import record as recorded
    from cpor.semantics.scorer_registry import find_config, make_scorer

    config = find_config(name)
    changes: dict[str, object] = {} if cache else {"cache": False}
    if calls is not None:
        changes["budget"] = config.budget.model_copy(update={"calls": calls})
    asked = make_scorer(config.model_copy(update=changes))
    return asked if record is None else recorded(asked, record)


def _require_scene_folder(scene: Path) -> None:
    if not scene.is_dir():
        raise SceneFileError(f"there is no folder {scene}; give a scene folder")
    if not (scene / "rgb.png").is_file():
        raise SceneFileError(
            f"{scene} is no scene folder: it has no rgb.png; `cpor perceive {scene} --out NEW` makes one"
        )


def _print_spent(said: "ScoredPairs", goal: Path) -> None:
    """What asking took, and the first problems."""
    from cpor.semantics.config import scrub

    spent = said.spent
    parts = [f"{spent.calls} calls", f"{spent.tokens} tokens"]
    if spent.money:
        parts.append(f"{spent.money:.4f} in money")
    if spent.remembered:
        parts.append(f"{spent.remembered} replies from the cache")
    if spent.refused:
        parts.append(f"{spent.refused} questions not asked: the budget is used up")
    typer.echo(f"spent: {', '.join(parts)}")
    for problem in said.problems[:5]:
        typer.echo(f"  {scrub(problem, None)}")
    if len(said.problems) > 5:
        typer.echo(f"  … {len(said.problems) - 5} more in {goal.with_suffix('.replies.json')}")


def _find_masks(given: "Scene", folder: Path, quiet: bool) -> "Scene":
    """Find the objects that scores are about, and keep them in the folder."""
    from cpor.io.scene_folder import encode_scene
    from cpor.io.whole_files import write_bytes
    from cpor.system import System

    view = System().look(given)
    found = replace(view.scene, sources=view.sources)
    if not found.objects:
        raise SceneFileError(f"no object was found in {folder}; look at it with `cpor doctor {folder}`")
    for name, content in encode_scene(found).items():
        if name in ("instances.png", "amodal.npz", "objects.json", "sources.json"):
            write_bytes(folder / name, content)
    if not quiet:
        typer.echo(f"The folder had no masks: {len(found.objects)} objects found, and kept in {folder}.")
    return found


def scorers(
    reach: Annotated[bool, cli.opt("Try to connect to the servers. No key is sent.")] = True,
    show: Annotated[str | None, cli.opt("Print the configuration file of this scorer.")] = None,
    as_json: cli.AsJson = False,
) -> None:
    """List the scorers: which are installed, configured and reachable."""
    from cpor.semantics.scorer_registry import find_config, find_config_file, scorer_status

    if show is not None:
        find_config(show)  # refuses what is no configuration, or holds a key
        typer.echo(find_config_file(show).read_text(encoding="utf-8"), nl=False)
        return
    status = scorer_status(reach)
    cli.print_result(as_json, lambda: status, lambda: _table(status))


def _scored(scene: "Scene", said: "ScoredPairs", scorer: object) -> "Scene":
    """The scene with its scores, and where masks and scores come from."""
    from cpor.sources import describe_sources, fingerprint, verified_sources

    recorded = verified_sources(scene)
    scored = replace(scene, semantic_scores=said.semantic_scores())
    sources = describe_sources(scored, recorded.segmenter if recorded else None, fingerprint(scorer))
    return replace(scored, sources=sources)


def replies_file(said: "ScoredPairs") -> bytes:
    """The replies behind the scores, as they came."""
    replies = [
        {
            "pairs": [list(pair) for pair in reply.pairs],
            "text": reply.text,
            "problems": list(reply.problems),
            "attempts": reply.attempts,
        }
        for reply in said.replies
    ]
    content = {"scorer": said.scorer, "spent": asdict(said.spent), "replies": replies}
    # Half of an emoji, where a reply was cut, becomes the escape that JSON has for it.
    return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode(errors="backslashreplace")


def _table(status: list[dict[str, Any]]) -> "Table":
    from rich.table import Table
    from rich.text import Text

    from cpor.semantics.config import scrub

    table = Table("scorer", "model", "asks by", "state")
    for each in status:
        cells = (each["name"], each["model"], each["way"], _state(each))
        # As text: in a plain string the console would take the brackets of [options] for a style.
        # Folded: what does not fit goes to the next line instead of being cut.
        table.add_row(*(Text(scrub(cell, None), overflow="fold") for cell in cells))
    return table


def _state(scorer: dict[str, Any]) -> str:
    """Whether a scorer can be asked, else what is missing."""
    missing = [each for each in (scorer["installed"], scorer["configured"]) if each]
    missing += ["its server does not answer"] if scorer["reachable"] is False else []
    return "; ".join(missing) or ("ready" if scorer["reachable"] else "installed")
