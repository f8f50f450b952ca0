"""The command line: reads arguments, calls the library, prints. `cpor --help` lists the commands."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from cpor.errors import CporError

app = typer.Typer(
    name="cpor",
    help="Grasp the target, remove a blocker, or ask: decisions in clutter with probabilities one can trust.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def _root() -> None:
    """Keep `decide` a command of its own even while it is the only one."""


@app.command()
def decide(
    scene: Annotated[
        Path, typer.Argument(metavar="FILE", help="Scene file with relation probabilities (JSON).")
    ],
    tau: Annotated[float, typer.Option(help="Act only above this probability of being right.")] = 0.5,
    method: Annotated[str, typer.Option(help="auto, exact, or topk (the paper's Algorithm 1).")] = "auto",
    deadline_ms: Annotated[float | None, typer.Option(help="Answer within this many milliseconds.")] = None,
    require_certificate: Annotated[
        bool,
        typer.Option("--require-certificate", help="Defer unless the answer is proven to be the exact one."),
    ] = False,
    prior: Annotated[
        float | None, typer.Option(help="Probability to assume where there was no answer.")
    ] = None,
    graphs: Annotated[int, typer.Option(min=0, help="How many of the likeliest arrangements to list.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Decide what to do for the target of a scene, and say why."""
    from cpor.data.scene_file import decision_to_json, read_scene_file
    from cpor.inference.decide import decide as decide_scene
    from cpor.inference.decide import parse_method

    posterior = read_scene_file(scene)
    settings = (tau, parse_method(method), deadline_ms, require_certificate)
    decision = decide_scene(posterior, *settings, prior=prior)
    if as_json:
        from cpor.inference.graphs import likeliest_graphs

        known = posterior.with_prior(prior)
        top = () if known.has_unanswered else likeliest_graphs(known, graphs)
        typer.echo(json.dumps(decision_to_json(decision, top), indent=2, ensure_ascii=False))
        return
    from rich.console import Console

    from cpor.inference.explain import explain
    from cpor.viz.card import decision_card

    Console().print(decision_card(explain(posterior, decision, k=graphs, prior=prior)))


def main() -> None:
    """Run the command line; an error of ours becomes one line on stderr and exit code 2."""
    try:
        app()
    except CporError as error:
        sys.stderr.write(f"error: {error}\n")
        raise SystemExit(2) from None
