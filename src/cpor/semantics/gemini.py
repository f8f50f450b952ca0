"""Gemini, Gemini Robotics-ER among them, through Google's official SDK."""

import importlib
import importlib.util
import json
import re
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from cpor.semantics.config import ScorerConfig
from cpor.semantics.deadline import within
from cpor.semantics.openai_compatible import retry_after
from cpor.semantics.provider import (
    Completion,
    ProviderFailure,
    Question,
    Readiness,
    never_sent,
    token_count,
)
from cpor.semantics.scorer import RelationScorer, ScorerError
from cpor.semantics.secrets import address_of, read_key, scrub, why_no_key
from cpor.semantics.vlm import NO_LOGPROBS, VlmScorer

if TYPE_CHECKING:
    from google import genai
    from google.genai import errors, types

GEMINI_URL = "https://generativelanguage.googleapis.com"
_OPTIONS = ("structured", "thinking_budget", "top_logprobs")


def build(config: ScorerConfig) -> RelationScorer:
    """The scorer of a configuration with kind = "gemini"."""
    return VlmScorer(config, GeminiProvider(config))


class GeminiProvider:
    """One `generateContent` call."""

    def __init__(self, config: ScorerConfig) -> None:
        config.check_options(_OPTIONS)
        if config.api_key_env is None:
            config = config.model_copy(update={"api_key_env": "GEMINI_API_KEY"})
        self.config = config
        self._structured = config.option("structured", bool, True)
        self._thinking_budget = config.option("thinking_budget", int)
        self._top_logprobs = config.option("top_logprobs", int, 20)
        self._lock = threading.Lock()
        self._client: tuple[str | None, genai.Client] | None = None

    def identity(self) -> Mapping[str, object]:
        """See `Provider`."""
        return {
            "kind": "gemini",
            "model": self.config.model,
            "at": scrub(self.config.base_url or GEMINI_URL, None),
            "structured": self._structured,
            "thinking_budget": self._thinking_budget,
            "top_logprobs": self._top_logprobs,
            "temperature": 0,
        }

    def readiness(self) -> Readiness:
        """See `Provider`."""
        return Readiness(
            None if _is_installed() else "pip install 'cpor-grasp[vlm]'",
            why_no_key(self.config),
            address_of(self.config.base_url or GEMINI_URL),
        )

    def complete(self, question: Question) -> Completion:
        """See `Provider`."""
        key = read_key(self.config)
        client = self._connect(key)
        from google.genai import errors

        timeouts, transport_errors = _transport_errors()
        try:
            contents, settings = self._contents(question), self._settings(question)
            reply = within(
                self.config.timeout_s,
                lambda: client.models.generate_content(
                    model=self.config.model, contents=contents, config=settings
                ),
            )
        except timeouts as problem:
            said = f"no reply in {self.config.timeout_s:g} s"
            raise ProviderFailure("timeout", said, None, not never_sent(problem)) from None
        except transport_errors as problem:
            raise ProviderFailure("connection", scrub(problem, key), None, not never_sent(problem)) from None
        except errors.APIError as problem:
            raise self._failure(problem, question, key) from None
        except (errors.UnknownApiResponseError, json.JSONDecodeError, UnicodeDecodeError) as problem:
            raise ProviderFailure("unreadable", scrub(problem, key), None, True) from None
        except (ValidationError, TypeError, AttributeError):
            # What a server sends is checked by the SDK, in its own way.
            raise ProviderFailure("unreadable", "a reply in no form of the API", None, True) from None
        return _read(reply)

    def _connect(self, key: str | None) -> "genai.Client":
        try:
            from google import genai
            from google.genai import types
        except ImportError:
            raise ScorerError(
                f"scorer {self.config.name} needs the google-genai package: pip install 'cpor-grasp[vlm]'"
            ) from None
        with self._lock:
            if self._client is None or self._client[0] != key:
                options = types.HttpOptions(
                    base_url=self.config.base_url,
                    timeout=max(round(1e3 * self.config.timeout_s), 1),
                    retry_options=types.HttpRetryOptions(attempts=1),  # ours count, and are paid for
                )
                self._client = (key, genai.Client(api_key=key, vertexai=False, http_options=options))
            return self._client[1]

    def _contents(self, question: Question) -> "list[types.Content]":
        from google.genai import types

        picture = types.Part.from_bytes(data=question.picture.png, mime_type="image/png")
        return [types.Content(role="user", parts=[picture, types.Part.from_text(text=question.prompt)])]

    def _settings(self, question: Question) -> "types.GenerateContentConfig":
        from google.genai import types

        settings: dict[str, Any] = {"temperature": 0.0, "max_output_tokens": question.max_output_tokens}
        if question.system:
            settings["system_instruction"] = question.system
        if question.schema is not None and self._structured:
            settings |= {
                "response_mime_type": "application/json",
                "response_schema": _open_api(question.schema),
            }
        if question.wants_yes_no:
            settings |= {"response_logprobs": True, "logprobs": self._top_logprobs}
        if self._thinking_budget is not None:
            settings["thinking_config"] = types.ThinkingConfig(thinking_budget=self._thinking_budget)
        return types.GenerateContentConfig(**settings)

    def _failure(
        self, problem: "errors.APIError", question: Question, key: str | None
    ) -> ProviderFailure | ScorerError:
        status, said = problem.code, scrub(problem.message or problem.status or "", key)
        who = f"scorer {self.config.name}"
        bad_key = status == 400 and "api key" in said.lower()
        if status in (401, 403) or bad_key:
            return ScorerError(f"{who}: the server refuses the key ({self.config.api_key_env})")
        if status == 404:
            return ScorerError(f"{who}: no model {self.config.model!r} there, or a wrong base_url ({said})")
        if status == 400 and question.wants_yes_no and "logprobs" in said.lower():
            return ScorerError(f"{who}: {NO_LOGPROBS} ({said})")
        if status == 429:
            return ProviderFailure("rate_limit", said, _wait_asked_for(problem))
        if status >= 500 or status == 408:
            return ProviderFailure("server", f"{status} {said}", _wait_asked_for(problem))
        if status < 400:
            return ProviderFailure("unreadable", f"{status} {said}", None, True)
        return ProviderFailure("refused_request", f"{status} {said}")


def _is_installed() -> bool:
    try:
        return importlib.util.find_spec("google.genai") is not None
    except ModuleNotFoundError:
        return False


def _transport_errors() -> tuple[tuple[type[Exception], ...], tuple[type[Exception], ...]]:
    """What the HTTP library below the SDK raises, on a timeout and else. It has changed its name."""
    found = [
        importlib.import_module(name)
        for name in ("httpx2", "httpx")
        if importlib.util.find_spec(name) is not None
    ]
    return tuple(each.TimeoutException for each in found), tuple(each.HTTPError for each in found)


def _open_api(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON schema in the part of OpenAPI that `responseSchema` takes."""
    kept = {key: value for key, value in schema.items() if key != "additionalProperties"}
    for key, value in kept.items():
        if key == "properties":
            kept[key] = {name: _open_api(each) for name, each in value.items()}
        elif key == "items":
            kept[key] = _open_api(value)
        elif key == "type":
            kept[key] = str(value).upper()
    return kept


def _wait_asked_for(problem: "errors.APIError") -> float | None:
    """Seconds from the Retry-After header, or from the RetryInfo among the error's details, in seconds."""
    headers = getattr(problem.response, "headers", None)
    if headers is not None and (wait := retry_after(headers)) is not None:
        return wait
    found = re.search(r"['\"]retryDelay['\"]:\s*['\"](\d+(?:\.\d+)?)s['\"]", str(problem.details))
    return float(found[1]) if found else None


def _read(reply: "types.GenerateContentResponse") -> Completion:
    usage = reply.usage_metadata
    written = None
    if usage is not None and usage.candidates_token_count is not None:
        written = token_count(usage.candidates_token_count + (usage.thoughts_token_count or 0))
    read = token_count(usage.prompt_token_count) if usage is not None else None
    blocked = reply.prompt_feedback is not None and reply.prompt_feedback.block_reason is not None
    if not reply.candidates:
        if blocked:
            return Completion("", None, True, False, read, written or 0)
        raise ProviderFailure("unreadable", "a reply without candidates", None, True)
    candidate = reply.candidates[0]
    parts = candidate.content.parts if candidate.content is not None else None
    text = "".join(part.text or "" for part in parts or [] if not part.thought)
    reason = candidate.finish_reason.name if candidate.finish_reason is not None else "STOP"
    refused = blocked or reason in ("SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII", "RECITATION")
    return Completion(text, _first_token(candidate), refused, reason == "MAX_TOKENS", read, written)


def _first_token(candidate: "types.Candidate") -> dict[str, float] | None:
    """Candidates for the first token that is not blank."""
    result = candidate.logprobs_result
    if result is None:
        return None
    chosen = result.chosen_candidates or []
    top = result.top_candidates or []
    for k, token in enumerate(chosen):
        if token.token and token.token.strip():
            options = [token, *((top[k].candidates or []) if k < len(top) else [])]
            return {
                each.token: each.log_probability
                for each in options
                if each.token is not None and each.log_probability is not None
            }
    return None
