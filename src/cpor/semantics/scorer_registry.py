"""Which scorers there are: entry points make them, small TOML files configure them."""

import inspect
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, cast

from cpor.errors import CporError, InvalidSettingError, list_labels
from cpor.plugins import SCORERS, is_ready, load_plugin, missing_methods
from cpor.semantics.config import ScorerConfig, read_config
from cpor.semantics.provider import Readiness
from cpor.semantics.scorer import RelationScorer, ScorerError

FOLDER_VARIABLE = "CPOR_SCORERS"
"""Environment variable that names a folder of the user's own configurations."""


def load_scorer(name: str, **changes: Any) -> RelationScorer:
    """Make a scorer.

    Args:
        name: A configuration file, the name of one (its first letters do, if they fit one only), or
            `module:attribute`: a scorer, or a callable that makes one of a `ScorerConfig` or of nothing.
        **changes: Fields of `ScorerConfig` to set otherwise than the file does.
    """
    config = find_config(name)
    if changes:
        config = ScorerConfig.model_validate(config.model_dump() | changes)
    return make_scorer(config)


def make_scorer(config: ScorerConfig) -> RelationScorer:
    """Make the scorer of a configuration."""
    try:
        made = load_plugin(SCORERS, config.kind)
    except InvalidSettingError as problem:
        raise ScorerError(f"scorer {config.name}: {problem}") from None
    if callable(made) and not is_ready(SCORERS, made):
        if _takes_config(made):
            made = made(config)
        elif config.options:
            raise ScorerError(f"scorer {config.name}: {config.kind} takes no options; drop [options]")
        else:
            made = made()
    # Not isinstance: it would ask for the name, and a name may take reading a network.
    if inspect.getattr_static(made, "name", None) is None or missing_methods(SCORERS, made):
        raise ScorerError(
            f"scorer {config.name}: {config.kind} did not return a RelationScorer with name, pairs() and "
            "score(); see docs/extending.md"
        )
    return cast(RelationScorer, made)


def _takes_config(make: object) -> bool:
    """Whether a callable must be given something; a type of Python's own does not say, and is."""
    assert callable(make)
    try:
        inspect.signature(make).bind()
    except (TypeError, ValueError):
        return True
    return False


def find_config(name: str) -> ScorerConfig:
    """The configuration of a name, a file or `module:attribute`."""
    if ":" in name and not name.endswith(".toml"):
        return ScorerConfig(kind=name, name=name)
    return read_config(find_config_file(name))


def find_config_file(name: str) -> Path:
    """The file that configures a scorer; see `find_config`."""
    if name.endswith(".toml"):
        return Path(name)
    known = config_files()
    fitting = [name] if name in known else [each for each in known if each.startswith(name)]
    if len(fitting) == 1:
        return known[fitting[0]]
    if fitting:
        raise ScorerError(
            f"scorer {name!r} could be any of: {list_labels(sorted(fitting))}; give the full name"
        )
    raise ScorerError(
        f"unknown scorer {name!r}; there are: {list_labels(sorted(known))}; or give a TOML file "
        "or module:attribute, see docs/scorers.md"
    )


def config_files() -> dict[str, Path]:
    """Configurations by name: those that come with the package, then the user's own, which win."""
    with as_file(files("cpor.semantics") / "ready") as ready:
        folders = [ready, Path.home() / ".config" / "cpor" / "scorers"]
    if own := os.environ.get(FOLDER_VARIABLE):
        folders.append(Path(own))
    return {
        path.stem: path for folder in folders if folder.is_dir() for path in sorted(folder.glob("*.toml"))
    }


def scorer_status(try_reaching: bool = True, timeout_s: float = 2.0) -> list[dict[str, Any]]:
    """All configured scorers. No key is sent: reaching a server means that it takes a connection.

    Returns:
        For each scorer `name`, `kind`, `model`, `way`, `where` (its file), `installed` and `configured`
        (None, or what is missing), and `reachable` (None where it has no server, or was not tried).
    """

    def look(path: Path) -> dict[str, Any]:
        try:
            config = read_config(path)
            ready = _readiness(config)
        except ScorerError as problem:
            config, ready = ScorerConfig(kind="?", name=path.stem), Readiness(configured=str(problem))
        reached = _accepts(ready.address, timeout_s) if try_reaching and ready.address else None
        said = {key: getattr(config, key) for key in ("name", "kind", "model", "way")} | {"where": str(path)}
        return said | {"installed": ready.installed, "configured": ready.configured, "reachable": reached}

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(look, config_files().values()))


def _readiness(config: ScorerConfig) -> Readiness:
    try:
        scorer = make_scorer(config)
        provider = getattr(scorer, "provider", None)
        if provider is not None:
            return provider.readiness()  # type: ignore[no-any-return]
        return Readiness(configured=None if scorer.name else "it has no name")
    except CporError as problem:
        return Readiness(configured=str(problem))


def _accepts(address: tuple[str, int], timeout_s: float) -> bool:
    try:
        with socket.create_connection(address, timeout_s):
            return True
    except (OSError, UnicodeError):  # the latter from a host's name that cannot be one
        return False
