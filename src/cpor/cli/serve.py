"""The commands `serve` and `label`: the web page and the service, and the page as a queue of photographs."""

import importlib.util
import logging
import os
from pathlib import Path
from typing import Annotated

import typer

from cpor.cli import options as cli
from cpor.errors import InvalidSettingError, MissingExtraError

TokenEnv = Annotated[str | None, cli.more("Environment variable with the token of callers.", metavar="NAME")]
TokenFile = Annotated[Path | None, cli.more("File with the token of callers.", metavar="FILE")]

_NEEDED = ("fastapi", "uvicorn", "prometheus_client", "python_multipart")


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command(rich_help_panel=cli.LEARN)(label)
    app.command(rich_help_panel=cli.SERVICE)(serve)


def serve(
    host: Annotated[str, cli.opt("Address to listen on. Any but this machine's own needs a token.")] = (
        "127.0.0.1"
    ),
    port: cli.Port = 8321,
    token_env: TokenEnv = None,
    token_file: TokenFile = None,
    public_host: Annotated[str | None, cli.more("Host name of a reverse proxy here.", metavar="NAME")] = None,
    workers: Annotated[int, cli.opt("Number of processes that look at pictures.", min=1, max=16)] = 1,
    model: Annotated[Path | None, cli.opt("Model of `cpor fit`; warns when pictures drift away.")] = None,
    camera: Annotated[
        str | None,
        cli.opt(
            "Camera to look through from the page, such as realsense; or a folder of frames, to try.",
            metavar="NAME[=WHICH]|FOLDER",
        ),
    ] = None,
    open_page: cli.OpenPage = False,
    log: Annotated[bool, cli.more("Log one line for every request.", "--log")] = False,
) -> None:
    """Serve the web page and the REST service, by default to this machine only."""
    _check_installed()
    from cpor.serve.http.settings import ServeSettings

    settings = ServeSettings(
        host=host,
        port=port,
        token=read_token(token_env, token_file),
        public_host=public_host,
        analysis_workers=workers,
        model=model,
        camera=camera,
    )
    if log:
        logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
        logging.getLogger("cpor.serve").setLevel(logging.INFO)
    from cpor.serve.http.server import serve as run_server

    run_server(settings, typer.echo, open_page)


def label(
    photographs: Annotated[
        Path, cli.arg("FOLDER", "Photographs with depth: scene folders, or a recording as decide reads it.")
    ],
    out: Annotated[Path, cli.opt("Folder for labelled scenes; the same command resumes.")] = Path("labelled"),
    most: Annotated[int, cli.opt("Number of photographs to label.", min=8)] = 50,
    port: cli.Port = 8321,
    seed: Annotated[int, cli.more("Random seed for the photographs drawn.", min=0)] = 0,
    open_page: cli.OpenPage = True,
) -> None:
    """Label photographs of your lab in the page; the most instructive first. Then: cpor fit."""
    _check_installed()
    from cpor.apps.label_queue import plan_queue
    from cpor.serve.http.server import serve as run_server
    from cpor.serve.http.settings import ServeSettings
    from cpor.viz.progress import progress_bars

    settings = ServeSettings(port=port)
    with progress_bars() as progress:
        queue = plan_queue(photographs, out, most, seed, progress)
    typer.echo(f"{len(queue.left)} of {len(queue.photographs)} photographs left; then: cpor fit {out}")
    run_server(settings, typer.echo, open_page, queue)


def _check_installed() -> None:
    if missing := [name for name in _NEEDED if importlib.util.find_spec(name) is None]:
        raise MissingExtraError(
            f"the service needs {missing[0]}, which is not installed; run: pip install 'cpor-grasp[serve]'"
        )


def read_token(env: str | None, file: Path | None) -> str | None:
    """The token that the options name; None where they name none."""
    if env is not None and file is not None:
        raise InvalidSettingError("give the token in one way: --token-env or --token-file")
    if env is not None:
        token = os.environ.get(env, "").strip()
        if not token:
            raise InvalidSettingError(f"the environment variable {env} is not set; put the token there")
        return token
    if file is None:
        return None
    try:
        token = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InvalidSettingError(f"cannot read the token file {file}: {reason}") from None
    return token
