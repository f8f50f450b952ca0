"""What a provider of a vision-language model is asked, what it gives, and how it fails."""

import email.utils
import hashlib
import importlib.util
import io
import json
import math
import time
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Literal, Protocol, TypeAlias

import numpy as np
from jaxtyping import UInt8
from pydantic import TypeAdapter

from cpor.semantics.config import ScorerConfig, address_of, read_key, scrub, why_no_key
from cpor.semantics.scorer import ScorerError

FailureKind = Literal["rate_limit", "server", "timeout", "connection", "refused_request", "unreadable"]

TRANSIENT: frozenset[FailureKind] = frozenset({"rate_limit", "server", "timeout", "connection", "unreadable"})
"""Failures after which the same question may be asked again."""

NO_LOGPROBS = (
    'the model gives no log-probabilities, and way = "pairs" needs them; set way = "scene", or choose '
    "another model"
)

UNREADABLE = (AttributeError, TypeError, KeyError, IndexError, RecursionError)
"""Errors from reading a reply that does not have the expected form."""


@dataclass(frozen=True, eq=False)
class EncodedPicture:
    """An image to send, of shape (h, w, 3). It is encoded once, however often it is sent."""

    rgb: UInt8[np.ndarray, "h w 3"]

    @cached_property
    def png(self) -> bytes:
        """The image as a PNG file."""
        from PIL import Image

        buffer = io.BytesIO()
        Image.fromarray(self.rgb).save(buffer, "PNG", compress_level=6)
        return buffer.getvalue()

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of size and pixels: the same on every machine, unlike the encoded file."""
        return hashlib.sha256(repr(self.rgb.shape).encode() + self.rgb.tobytes()).hexdigest()


@dataclass(frozen=True, eq=False)
class Question:
    """One request to a model.

    Attributes:
        picture: What it looks at.
        prompt: What it is asked.
        system: Instructions before it; None for none.
        schema: JSON schema the reply has to follow; None for free text.
        wants_yes_no: Ask for the log-probabilities of the first token.
        max_output_tokens: Most tokens to write.
    """

    picture: EncodedPicture
    prompt: str
    system: str | None = None
    schema: Mapping[str, Any] | None = None
    wants_yes_no: bool = False
    max_output_tokens: int = 4096

    def key(self, asked_of: Mapping[str, object]) -> str:
        """A name for the question put to one model with one set of settings: equal exactly if all is."""
        content = {
            "version": 1,
            "picture": self.picture.fingerprint,
            "prompt": self.prompt,
            "system": self.system,
            "schema": self.schema,
            "yes_no": self.wants_yes_no,
            "max_output_tokens": self.max_output_tokens,
            "of": dict(asked_of),
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Completion:
    """What a model replied.

    Attributes:
        text: The reply.
        first_token: Log-probability of each candidate for the first token; None where not given.
        refused: Whether the provider or the model declined to answer.
        cut: Whether the reply ended because it reached the most tokens allowed.
        input_tokens, output_tokens: As the provider counts them; None where it does not say.
    """

    text: str
    first_token: Mapping[str, float] | None = None
    refused: bool = False
    cut: bool = False
    input_tokens: int | None = None
    output_tokens: int | None = None

    def to_json(self) -> str:
        """As the cache and recordings keep it."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "Completion":
        """Read what `to_json` wrote; a ValueError says that the text is damaged."""
        return _COMPLETION.validate_json(text, strict=True)


_COMPLETION = TypeAdapter(Completion)


def token_count(value: object) -> int | None:
    """A provider's count of tokens; None where it is none: less than nothing would raise a budget."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


class ProviderFailure(Exception):  # noqa: N818 - caught by us, never shown to a user as it is
    """A request that brought no reply.

    Attributes:
        kind: What happened.
        detail: In words, without secrets.
        retry_after_s: How long the provider asks to wait. [s]
        may_cost: Whether the provider may have done, and charged for, the work.
    """

    def __init__(
        self, kind: FailureKind, detail: str, retry_after_s: float | None = None, may_cost: bool = False
    ) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.detail = detail
        self.retry_after_s = retry_after_s
        self.may_cost = may_cost


@dataclass(frozen=True)
class Readiness:
    """Whether a scorer can be used.

    Attributes:
        installed: Whether what it needs is installed; else how to install it.
        configured: Whether keys and files are there; else what is missing.
        address: Host and port it calls; None where it makes no call.
    """

    installed: str | None = None
    configured: str | None = None
    address: tuple[str, int] | None = None


class Provider(Protocol):
    """Puts one question to one model, once: no retries, no cache, no books."""

    def identity(self) -> Mapping[str, object]:
        """Model and settings that a reply depends on; no secrets. Part of the cache's key."""
        ...

    def complete(self, question: Question) -> Completion:
        """Ask.

        Raises:
            ProviderFailure: No reply came.
            ScorerError: The provider is not set up, or cannot do what is asked (log-probabilities).
        """
        ...

    def readiness(self) -> Readiness:
        """What is installed, set up and called, without calling anybody."""
        ...


Sdk: TypeAlias = tuple[Any, type[Exception], type[Exception]]
"""A client, the error for a status, and the error for a reply that the SDK cannot use."""


class HttpProvider(Provider):
    """One call through a provider's official SDK, within a time limit and without the SDK's own retries.

    Replies are read here and not by the SDK, which takes minutes to build objects from a hostile one.
    """

    kind: ClassVar[str]
    package: ClassVar[str]
    url: ClassVar[str]
    options: ClassVar[tuple[str, ...]]

    def __init__(self, config: ScorerConfig) -> None:
        config.check_options(("structured", "top_logprobs", *self.options))
        self.config = config
        self._structured = config.option("structured", bool, True)
        self._top_logprobs = config.option("top_logprobs", int, 20)
        self._connect = lru_cache(maxsize=1)(self._open)

    @abstractmethod
    def _open(self, key: str | None) -> Sdk:
        """The SDK, with a client for this key. It raises ImportError where it is not installed."""

    @abstractmethod
    def _send(self, client: Any, question: Question) -> Completion:
        """One call, and what its reply says."""

    @abstractmethod
    def _explain(self, problem: Any, question: Question, key: str | None) -> ProviderFailure | ScorerError:
        """What an error for a status means; see `_explain_status`."""

    def identity(self) -> Mapping[str, object]:
        """See `Provider`."""
        return {
            "kind": self.kind,
            "model": self.config.model,
            "at": scrub(self.address, None),
            "structured": self._structured,
            "top_logprobs": self._top_logprobs,
        }

    @property
    def address(self) -> str:
        """URL of the server."""
        return self.config.base_url or self.url

    def readiness(self) -> Readiness:
        """See `Provider`."""
        try:
            there = importlib.util.find_spec(self.package) is not None
        except ModuleNotFoundError:
            there = False
        return Readiness(
            None if there else "pip install 'cpor-grasp[vlm]'",
            why_no_key(self.config),
            address_of(self.address),
        )

    def complete(self, question: Question) -> Completion:
        """See `Provider`."""
        key = read_key(self.config)
        try:
            from cpor.semantics.transport import within

            client, status_error, other_errors = self._connect(key)
        except ImportError:
            package = self.package.replace(".", "-")
            raise ScorerError(
                f"scorer {self.config.name} needs the {package} package: pip install 'cpor-grasp[vlm]'"
            ) from None
        try:
            return within(self.config.timeout_s, key, lambda: self._send(client, question))
        except status_error as problem:
            raise self._explain(problem, question, key) from None
        except (other_errors, ValueError) as problem:
            raise ProviderFailure("unreadable", scrub(problem, key), None, True) from None
        except UNREADABLE:
            raise ProviderFailure("unreadable", "a reply in no form of the API", None, True) from None

    def _explain_status(
        self, status: int, said: str, question: Question, wait_s: float | None
    ) -> ProviderFailure | ScorerError:
        """What a status means. An error of the scorer ends the asking, another one concerns this question."""
        scorer = f"scorer {self.config.name}"
        if status in (401, 403):
            named = self.config.api_key_env or "no key is set: name its variable in api_key_env"
            return ScorerError(f"{scorer}: the server refuses the key ({named})")
        if status == 404:
            return ScorerError(
                f"{scorer}: no model {self.config.model!r} there, or a wrong base_url ({said})"
            )
        if status in (400, 422) and question.wants_yes_no and "logprob" in said.lower():
            return ScorerError(f"{scorer}: {NO_LOGPROBS} ({said})")
        if status == 429:
            return ProviderFailure("rate_limit", said, wait_s)
        if status >= 500 or status in (408, 409):
            return ProviderFailure("server", f"{status} {said}", wait_s)
        if status < 400:
            return ProviderFailure("unreadable", f"{status} {said}", None, True)
        return ProviderFailure("refused_request", f"{status} {said}")


def retry_after(headers: Mapping[str, str]) -> float | None:
    """How long a Retry-After header asks to wait, in seconds or as a date; in seconds."""
    value = headers.get("retry-after")
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, TypeError, OverflowError):
            return None
    return None if math.isnan(seconds) else max(seconds, 0.0)
