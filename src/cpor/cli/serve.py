"""The command `serve`: the web page and the service."""

import importlib.util
import logging
import os
from pathlib import Path
from typing import Annotated

import typer

from cpor.cli.options import MORE, SERVICE
from cpor.errors import CporError, InvalidSettingError

_NEEDED = ("fastapi", "uvicorn", "prometheus_client", "python_multipart")


class ServeNotInstalledError(CporError):
    """The extra that the service needs is not there."""


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(rich_help_panel=SERVICE)(serve)


def serve(
    host: Annotated[
        str, typer.Option(help="Address to listen on. Any but this machine's own needs a token.")
    ] = ("127.0.0.1"),
    port: Annotated[int, typer.Option(help="Port to listen on; 0: any free port.")] = 8321,
    token_env: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", rich_help_panel=MORE, help="Environment variable with the token of callers."
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", rich_help_panel=MORE, help="File with the token of callers."),
    ] = None,
    public_host: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            rich_help_panel=MORE,
            help="Host name that a reverse proxy on this machine serves.",
        ),
    ] = None,
    workers: Annotated[
        int, typer.Option(min=1, max=16, help="Number of processes that look at pictures.")
    ] = 1,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = False,
    log: Annotated[
        bool, typer.Option("--log", rich_help_panel=MORE, help="Log one line for every request.")
    ] = False,
) -> None:
    """Serve the web page and the REST service, by default to this machine only."""
    if missing := [name for name in _NEEDED if importlib.util.find_spec(name) is None]:
        raise ServeNotInstalledError(
            f"the service needs {missing[0]}, which is not installed; run: pip install 'cpor-grasp[serve]'"
        )
    from cpor.serve.http.settings import ServeSettings

    settings = ServeSettings(
        host=host,
        port=port,
        token=_read_token(token_env, token_file),
        public_host=public_host,
        analysis_workers=workers,
    )
    if log:
        logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
        logging.getLogger("cpor.serve").setLevel(logging.INFO)
    from cpor.serve.http.server import serve as run_server

    run_server(settings, typer.echo, open_page)


def _read_token(env: str | None, file: Path | None) -> str | None:
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
