"""A scorer's configuration: one small TOML file. It names the variable that holds a key, never the key."""

import re
import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from cpor.semantics.budget import Budget, Prices, Purse
from cpor.semantics.cache import ReplyCache, default_cache_file
from cpor.semantics.patience import Patience, PatientCaller
from cpor.semantics.provider import Provider
from cpor.semantics.scorer import ScorerError
from cpor.semantics.secrets import holds_secret


class _Table(BaseModel):
    # Input is hidden in messages: there may be a key where none belongs.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, allow_inf_nan=False)


class BudgetTable(_Table):
    """`[budget]`: limits of one run; a limit left out is none."""

    calls: int | None = Field(None, ge=0)
    tokens: int | None = Field(None, ge=0)
    money: float | None = Field(None, ge=0.0)


class PricesTable(_Table):
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
        attempts, first_wait_s, longest_wait_s, at_once, rest_after, rest_s: See `Patience`.
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
    budget: BudgetTable = BudgetTable()
    prices: PricesTable = PricesTable()
    options: dict[str, Any] = Field(default_factory=dict)

    @field_validator("api_key_env")
    @classmethod
    def _names_a_variable(cls, value: str | None) -> str | None:
        # Upper case only: keys have small letters, so one put here by mistake is not taken for a name.
        if value is not None and not re.fullmatch(r"[A-Z_][A-Z0-9_]*", value):
            raise ValueError("must be the name of an environment variable, in capitals, not the key itself")
        return value

    def caller(self, provider: Provider) -> PatientCaller:
        """Cache, budget and patience around a provider."""
        file = default_cache_file() if self.cache is None else self.cache
        return PatientCaller(
            provider,
            Patience(
                self.attempts,
                self.first_wait_s,
                self.longest_wait_s,
                self.at_once,
                self.rest_after,
                self.rest_s,
            ),
            Purse(Budget(**self.budget.model_dump()), Prices(**self.prices.model_dump())),
            ReplyCache(Path(file).expanduser()) if file else None,
            self.picture_tokens,
        )

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
    """Read a configuration.

    Raises:
        ScorerError: The file cannot be read, or says something it must not; values are not repeated.
    """
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
