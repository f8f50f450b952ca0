"""A scorer's configuration: one small TOML file. It names the variable that holds a key, never the key.

Keys are read when a call is made, and kept out of messages.
"""

import os
import re
import tomllib
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from cpor.semantics.scorer import ScorerError

_LOOKS_SECRET = re.compile(
    r"(?i)\b(sk-[\w-]{6,}|AIza[\w-]{10,}|hf_\w{8,}|bearer\s+\S+)|(?<=[?&]key=)[^&\s'\"]+|(?<=//)[^/@\s:]*:[^/@\s]+(?=@)"
)
# A `prompt_cache_key` is none.
_SECRET_NAME = re.compile(r"(?i)(?<!cache)(?<!cache[_-])key$|api_?key|secret|passw|authorization")


class _Table(BaseModel):
    # Input is hidden in messages: there may be a key where none belongs.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, allow_inf_nan=False)


class Budget(_Table):
    """`[budget]`: limits of one run, retries counted; a limit left out is none. Money needs prices."""

    calls: int | None = Field(None, ge=0)
    tokens: int | None = Field(None, ge=0)
    money: float | None = Field(None, ge=0.0)


class Prices(_Table):
    """`[prices]`: of a million tokens, in any one currency."""

    input_per_million: float = Field(0.0, ge=0.0)
    output_per_million: float = Field(0.0, ge=0.0)


class ScorerConfig(_Table):
    """Everything a scorer is told.

    Attributes:
        kind: Which scorer: the name of an entry point in `cpor.scorers`, or `module:attribute`.
        name: What its scores are called; the file's name where left out.
        model: The provider's name of the model, or the folder of a local one.
        way: `scene`: one prompt for all pairs, which asks for probabilities. `pairs`: yes or no for each
            pair, from log-probabilities.
        base_url: Address of the server; the provider's own where left out.
        api_key_env: The environment variable that holds the key, read when a call is made.
        words: Whether it is asked which object the words of a request mean; else our word judge tells.
        names: Whether it is asked, once a look, what the objects are; else colours and shapes name them.
        hypotheses: Whether the prompt shows what geometry measured (`scene` only).
        points: How points in replies are meant; see `Marks`.
        pairs_per_prompt: Scenes with more pairs take several prompts.
        max_output_tokens: Most tokens of a reply.
        picture_tokens: Most tokens a picture can cost; what the budget reserves for it.
        least_yes_no: Least probability that yes and no have together for an answer to count.
        timeout_s: Time limit of one call. [s]
        attempts: Calls for one question at most.
        first_wait_s: Wait after the first failure, which doubles with each further one. [s]
        longest_wait_s: No single wait is longer; a provider that asks for more is given up on. [s]
        at_once: Calls under way at the same time.
        rest_after: After so many failed calls in a row the provider is left alone for a while.
        rest_s: How long; then one call tries again. [s]
        cache: File of remembered replies; false remembers nothing; left out, the user's cache folder.
        budget: Limits of one run.
        prices: Prices of tokens.
        options: What only this kind knows.
    """

    kind: str
    name: str = ""
    model: str = ""
    way: Literal["scene", "pairs"] = "scene"
    base_url: str | None = None
    api_key_env: str | None = None
    words: bool = True
    names: bool = False
    hypotheses: bool = True
    points: Literal["pixels", "thousandths"] = "pixels"
    pairs_per_prompt: int = Field(200, ge=1)
    max_output_tokens: int = Field(8192, ge=1)
    picture_tokens: int = Field(4096, ge=0)
    least_yes_no: float = Field(0.01, ge=0.0, le=1.0)
    timeout_s: float = Field(60.0, gt=0.0)
    attempts: int = Field(4, ge=1)
    first_wait_s: float = Field(1.0, ge=0.0)
    longest_wait_s: float = Field(60.0, ge=0.0)
    at_once: int = Field(4, ge=1)
    rest_after: int = Field(10, ge=1)
    rest_s: float = Field(30.0, ge=0.0)
    cache: str | Literal[False] | None = None
    budget: Budget = Budget()
    prices: Prices = Prices()
    options: dict[str, Any] = Field(default_factory=dict)

    @field_validator("api_key_env")
    @classmethod
    def _names_a_variable(cls, value: str | None) -> str | None:
        # Upper case only: keys have small letters, so one put here by mistake is not taken for a name.
        if value is not None and not re.fullmatch(r"[A-Z_][A-Z0-9_]*", value):
            raise ValueError("must be the name of an environment variable, in capitals, not the key itself")
        return value

    @model_validator(mode="after")
    def _waits_grow(self) -> Self:
        if self.first_wait_s > self.longest_wait_s:
            raise ValueError("first_wait_s must lie between 0 and longest_wait_s")
        return self

    def option(self, name: str, kind: type, default: Any = None) -> Any:
        """One of `[options]`, checked for its type."""
        value = self.options.get(name, default)
        if value is not default and (
            not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)
        ):
            raise ScorerError(f"scorer {self.name}: options.{name} must be of type {kind.__name__}")
        return value

    def check_options(self, known: tuple[str, ...]) -> None:
        """Refuse options that this kind does not know."""
        if unknown := sorted(set(self.options) - set(known)):
            raise ScorerError(
                f"scorer {self.name}: unknown option {unknown[0]!r} in [options]; {self.kind} knows: "
                f"{', '.join(known) or 'none'}"
            )


def read_config(path: str | Path) -> ScorerConfig:
    """Read a configuration."""
    path = Path(path)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise ScorerError(f"cannot read the scorer configuration {path}: {problem.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        raise ScorerError(f"{path} is not TOML; see docs/scorers.md for an example") from None
    return config_from(content, path.stem, str(path))


def config_from(content: dict[str, Any], name: str, where: str) -> ScorerConfig:
    """Check a configuration that was read; `name` stands in for a missing one."""
    if holds_secret({field: value for field, value in content.items() if field != "api_key_env"}):
        raise ScorerError(
            f"{where} seems to hold a key; take it out (and change the key), put it into an environment "
            "variable, and name the variable in api_key_env"
        )
    try:
        return ScorerConfig.model_validate({"name": name, **content})
    except ValidationError as problem:
        first = problem.errors(include_input=False, include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "the file"
        raise ScorerError(f"{where}: {field}: {first['msg']}") from None


def holds_secret(content: object, name: str = "") -> bool:
    """Whether a configuration, or a part of it, seems to hold a key: by a field's name, or by a value."""
    if content is not None and _SECRET_NAME.search(name):
        return True
    if isinstance(content, dict):
        return any(holds_secret(value, str(field)) for field, value in content.items())
    if isinstance(content, list):
        return any(holds_secret(value) for value in content)
    return isinstance(content, str) and _LOOKS_SECRET.search(content) is not None


def read_key(config: ScorerConfig) -> str | None:
    """The key, or None where the configuration names no variable."""
    if config.api_key_env is None:
        return None
    key = os.environ.get(config.api_key_env, "").strip()
    if not key:
        raise ScorerError(
            f"scorer {config.name} needs a key: set the environment variable {config.api_key_env}"
        )
    if not re.fullmatch(r"[!-~]+", key):  # no header can hold it, and the error would show it
        raise ScorerError(
            f"scorer {config.name}: the variable {config.api_key_env} holds no key: there are spaces, line "
            "breaks or letters in it that no key has; copy the key again"
        )
    return key


def why_no_key(config: ScorerConfig) -> str | None:
    """What is missing, where a key is."""
    try:
        read_key(config)
    except ScorerError:
        is_set = bool(os.environ.get(config.api_key_env or "", "").strip())
        return f"{config.api_key_env} {'holds no key' if is_set else 'is not set'}"
    return None


def scrub(text: object, key: str | None, most: int = 300) -> str:
    """A message without the key, anything that looks like one, or control characters; on one line."""
    said = str(text)
    if key:
        said = said.replace(key, "***")
    said = "".join(c if c.isprintable() else " " for c in _LOOKS_SECRET.sub("***", said))
    said = " ".join(said.split())
    return said if len(said) <= most else said[: most - 1] + "…"


def address_of(url: str) -> tuple[str, int] | None:
    """Host and port of a URL; None where it has none."""
    try:
        parts = urlsplit(url)
        port = parts.port or (80 if parts.scheme == "http" else 443)
    except ValueError:
        return None
    return None if parts.hostname is None else (parts.hostname, port)
