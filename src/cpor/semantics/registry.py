"""Which scorers there are: entry points make them, small TOML files configure them."""

import importlib
import inspect
import os
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import entry_points
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from cpor.errors import CporError, list_labels
from cpor.semantics.config import ScorerConfig, read_config
from cpor.semantics.provider import Readiness
from cpor.semantics.scorer import RelationScorer, ScorerError

GROUP = "cpor.scorers"
"""Entry points of this group are callables `ScorerConfig -> RelationScorer`; their names are the kinds."""

FOLDER_VARIABLE = "CPOR_SCORERS"
"""Environment variable that names a folder of the user's own configurations."""

Build = Callable[[ScorerConfig], RelationScorer]


@dataclass(frozen=True)
class ScorerStatus:
    """What is known of one configured scorer.

    Attributes:
        name: Its name.
        kind: Which scorer makes it.
        model: The model it asks.
        way: How it asks.
        where: The file that configures it.
        installed: None if what it needs is installed, else how to install it.
        configured: None if keys and files are there, else what is missing.
        reachable: Whether its server answers; None where it has none or was not tried.
    """

    name: str
    kind: str
    model: str
    way: str
    where: str
    installed: str | None
    configured: str | None
    reachable: bool | None


def load_scorer(name: str, **changes: Any) -> RelationScorer:
    """Make a scorer.

    Args:
        name: A configuration file, or the name of one (its first letters do, if they fit one only).
        **changes: Fields of `ScorerConfig` to set otherwise than the file does.
    """
    config = find_config(name)
    if changes:
        config = ScorerConfig.model_validate(config.model_dump() | changes)
    return make_scorer(config)


def make_scorer(config: ScorerConfig) -> RelationScorer:
    """Make the scorer of a configuration.

    Raises:
        ScorerError: Nobody makes this kind, or what does cannot be imported.
    """
    scorer = _find_kind(config)(config)
    # Not isinstance: it would ask for the name, and a name may take reading a network.
    if inspect.getattr_static(scorer, "name", None) is None or not callable(getattr(scorer, "score", None)):
        raise ScorerError(
            f"scorer {config.name}: {config.kind} made no RelationScorer: it needs name and score()"
        )
    return scorer


def find_config(name: str) -> ScorerConfig:
    """The configuration of a name or file.

    Raises:
        ScorerError: There is none, or several fit; those there are get listed.
    """
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
        raise ScorerError(f"scorer {name!r} may be any of: {list_labels(sorted(fitting))}; say which")
    raise ScorerError(
        f"unknown scorer {name!r}; there are: {list_labels(sorted(known))}; or give a TOML file, see "
        "docs/scorers.md"
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


def scorer_status(try_reaching: bool = True, timeout_s: float = 2.0) -> list[ScorerStatus]:
    """All configured scorers. No key is sent: reaching a server means that it takes a connection.

    Args:
        try_reaching: Whether to try.
        timeout_s: How long to wait for a connection. [s]
    """
    found = []
    for path in config_files().values():
        try:
            config = read_config(path)
        except ScorerError as problem:
            found.append((ScorerConfig(kind="?", name=path.stem), path, Readiness(configured=str(problem))))
            continue
        found.append((config, path, _readiness(config)))

    def reach(readiness: Readiness) -> bool | None:
        if not try_reaching or readiness.address is None:
            return None
        return _accepts(readiness.address, timeout_s)

    with ThreadPoolExecutor(8) as pool:
        reachable = list(pool.map(reach, [readiness for _, _, readiness in found]))
    return [
        ScorerStatus(c.name, c.kind, c.model, c.way, str(path), r.installed, r.configured, there)
        for (c, path, r), there in zip(found, reachable, strict=True)
    ]


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


def _find_kind(config: ScorerConfig) -> Build:
    made = {point.name: point for point in entry_points(group=GROUP)}
    if config.kind in made:
        try:
            return made[config.kind].load()  # type: ignore[no-any-return]
        except (ImportError, AttributeError) as problem:
            raise ScorerError(f"scorer {config.name}: {config.kind} cannot be loaded: {problem}") from None
    module, _, attribute = config.kind.partition(":")
    if not attribute:
        raise ScorerError(
            f"scorer {config.name}: unknown kind {config.kind!r}; there are: {list_labels(sorted(made))}; or "
            "name your own as module:function"
        )
    try:
        return getattr(importlib.import_module(module), attribute)  # type: ignore[no-any-return]
    except (ImportError, AttributeError, ValueError) as problem:
        raise ScorerError(f"scorer {config.name}: cannot find {config.kind}: {problem}") from None
