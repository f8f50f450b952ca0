"""What a provider of a vision-language model is asked, what it gives, and how it fails."""

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np
from jaxtyping import UInt8

FailureKind = Literal["rate_limit", "server", "timeout", "connection", "refused_request", "unreadable"]

TRANSIENT: frozenset[FailureKind] = frozenset({"rate_limit", "server", "timeout", "connection", "unreadable"})
"""Failures after which the same question may be asked again."""

UNREADABLE = (AttributeError, TypeError, KeyError, IndexError, RecursionError)
"""Errors from reading a reply that does not have the expected form."""


@dataclass(frozen=True, eq=False)
class EncodedPicture:
    """An image to send. It is encoded once, however often it is sent.

    Attributes:
        rgb: Shape (h, w, 3), not written to.
    """

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
        """Read what `to_json` wrote.

        Raises:
            ValueError: The text is damaged.
        """
        try:
            found = cls(**json.loads(text))
        except TypeError as problem:
            raise ValueError(str(problem)) from None
        if not isinstance(found.text, str):
            raise ValueError("no text")
        if found.first_token is not None and not _is_log_probabilities(found.first_token):
            raise ValueError("no log-probabilities")
        return found


def _is_log_probabilities(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(each, int | float) for each in value.values())


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
    address: tuple[str, int] | None = field(default=None)


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
