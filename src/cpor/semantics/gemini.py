"""Gemini, Gemini Robotics-ER among them, through Google's official SDK."""

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cpor.semantics.config import ScorerConfig, scrub
from cpor.semantics.provider import (
    Completion,
    HttpProvider,
    ProviderFailure,
    Question,
    Sdk,
    retry_after,
    token_count,
)
from cpor.semantics.scorer import RelationScorer, ScorerError
from cpor.semantics.vlm import VlmScorer

if TYPE_CHECKING:
    from google import genai
    from google.genai import errors, types


def build(config: ScorerConfig) -> RelationScorer:
    """The scorer of a configuration with kind = "gemini"."""
    return VlmScorer(config, GeminiProvider(config))


class GeminiProvider(HttpProvider):
    """One `generateContent` call."""

    kind = "gemini"
    package = "google.genai"
    url = "https://generativelanguage.googleapis.com"
    options = ("thinking_budget",)

    def __init__(self, config: ScorerConfig) -> None:
        if config.api_key_env is None:
            config = config.model_copy(update={"api_key_env": "GEMINI_API_KEY"})
        super().__init__(config)
        self._thinking_budget = config.option("thinking_budget", int)

    def identity(self) -> Mapping[str, object]:
        """See `Provider`."""
        return {**super().identity(), "thinking_budget": self._thinking_budget, "temperature": 0}

    def _open(self, key: str | None) -> Sdk:
        from google import genai
        from google.genai import errors, types

        from cpor.semantics.transport import bounded_client

        options = types.HttpOptions(
            base_url=self.config.base_url,
            timeout=max(round(1e3 * self.config.timeout_s), 1),
            retry_options=types.HttpRetryOptions(attempts=1),  # ours count, and are paid for
            httpx_client=bounded_client(),
        )
        client = genai.Client(api_key=key, vertexai=False, http_options=options)
        return client, errors.APIError, errors.UnknownApiResponseError

    def _send(self, client: "genai.Client", question: Question) -> Completion:
        from google.genai import types

        picture = types.Part.from_bytes(data=question.picture.png, mime_type="image/png")
        text = types.Part.from_text(text=question.prompt)
        contents, settings = [types.Content(role="user", parts=[picture, text])], self._settings(question)
        raw = client.models.generate_content(
            model=self.config.model, contents=contents, config=settings
        ).sdk_http_response
        return _read(json.loads((raw and raw.body) or ""))

    def _settings(self, question: Question) -> "types.GenerateContentConfig":
        from google.genai import types

        settings: dict[str, Any] = {
            "temperature": 0.0,
            "max_output_tokens": question.max_output_tokens,
            "should_return_http_response": True,
        }
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

    def _explain(
        self, problem: "errors.APIError", question: Question, key: str | None
    ) -> ProviderFailure | ScorerError:
        status, said = problem.code, scrub(problem.message or problem.status or "", key)
        if status == 400 and "api key" in said.lower():
            status = 401
        return self._explain_status(status, said, question, _wait_asked_for(problem))


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


def _read(reply: dict[str, Any]) -> Completion:
    usage = reply.get("usageMetadata") or {}
    read, written = token_count(usage.get("promptTokenCount")), token_count(usage.get("candidatesTokenCount"))
    if written is not None:
        written += token_count(usage.get("thoughtsTokenCount")) or 0
    blocked = (reply.get("promptFeedback") or {}).get("blockReason") is not None
    if not reply.get("candidates"):
        if blocked:
            return Completion("", None, True, False, read, written or 0)
        raise ProviderFailure("unreadable", "a reply without candidates", None, True)
    candidate = reply["candidates"][0]
    parts = (candidate.get("content") or {}).get("parts") or []
    text = "".join(part.get("text") or "" for part in parts if not part.get("thought"))
    reason = candidate.get("finishReason", "STOP")
    refused = blocked or reason in ("SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII", "RECITATION")
    return Completion(text, _first_token(candidate), refused, reason == "MAX_TOKENS", read, written)


def _first_token(candidate: dict[str, Any]) -> dict[str, float] | None:
    """Candidates for the first token that is not blank."""
    result = candidate.get("logprobsResult") or {}
    chosen, top = result.get("chosenCandidates") or [], result.get("topCandidates") or []
    for k, token in enumerate(chosen):
        if token.get("token", "").strip():
            options = [token, *((top[k].get("candidates") or []) if k < len(top) else [])]
            return {
                each["token"]: float(each["logProbability"])
                for each in options
                if each.get("token") is not None and each.get("logProbability") is not None
            }
    return None
