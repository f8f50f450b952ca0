"""OpenAI and every server that speaks its chat completions: vLLM, Ollama, LM Studio and the like."""

import base64
import email.utils
import importlib.util
import json
import math
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cpor.semantics.config import ScorerConfig
from cpor.semantics.provider import UNREADABLE, Completion, ProviderFailure, Question, Readiness, token_count
from cpor.semantics.scorer import RelationScorer, ScorerError
from cpor.semantics.secrets import address_of, read_key, scrub, why_no_key
from cpor.semantics.vlm import NO_LOGPROBS, VlmScorer

if TYPE_CHECKING:
    import openai

OPENAI_URL = "https://api.openai.com/v1"
_OPTIONS = (
    "structured",
    "send_temperature",
    "max_tokens_field",
    "top_logprobs",
    "extra_body",
    "image_detail",
)


def build(config: ScorerConfig) -> RelationScorer:
    """The scorer of a configuration with kind = "openai"."""
    return VlmScorer(config, OpenAIProvider(config))


class OpenAIProvider:
    """One call to a server that speaks OpenAI's chat completions, through the official SDK."""

    def __init__(self, config: ScorerConfig) -> None:
        config.check_options(_OPTIONS)
        if config.api_key_env is None and config.base_url is None:
            config = config.model_copy(update={"api_key_env": "OPENAI_API_KEY"})
        self.config = config
        own_server = config.base_url is not None
        self._structured = config.option("structured", bool, True)
        self._send_temperature = config.option("send_temperature", bool, True)
        default_field = "max_tokens" if own_server else "max_completion_tokens"
        self._max_tokens_field = config.option("max_tokens_field", str, default_field)
        self._top_logprobs = config.option("top_logprobs", int, 20)
        self._extra_body = config.option("extra_body", dict, {})
        self._image_detail = config.option("image_detail", str, "auto")
        self._lock = threading.Lock()
        self._client: tuple[str | None, openai.OpenAI] | None = None

    def identity(self) -> Mapping[str, object]:
        """See `Provider`."""
        return {
            "kind": "openai",
            "model": self.config.model,
            "at": scrub(self.config.base_url or OPENAI_URL, None),
            "structured": self._structured,
            "temperature": 0 if self._send_temperature else None,
            "top_logprobs": self._top_logprobs,
            "extra_body": self._extra_body,
            "image_detail": self._image_detail,
        }

    def readiness(self) -> Readiness:
        """See `Provider`."""
        there = importlib.util.find_spec("openai") is not None
        return Readiness(
            None if there else "pip install 'cpor-grasp[vlm]'",
            why_no_key(self.config),
            address_of(self.config.base_url or OPENAI_URL),
        )

    def complete(self, question: Question) -> Completion:
        """See `Provider`."""
        key = read_key(self.config)
        client = self._connect(key)
        import openai

        from cpor.semantics.transport import within

        def ask() -> Completion:
            # Read here and not by the SDK, which takes minutes to build objects from a hostile reply.
            raw = client.chat.completions.with_raw_response.create(**self._request(question))
            return _read(json.loads(raw.content))

        try:
            return within(self.config.timeout_s, key, ask)
        except openai.APIStatusError as problem:
            raise self._failure(problem, question, key) from None
        except (openai.APIError, ValueError) as problem:
            raise ProviderFailure("unreadable", scrub(problem, key), None, True) from None
        except UNREADABLE:
            raise ProviderFailure("unreadable", "a reply in no form of the API", None, True) from None

    def _connect(self, key: str | None) -> "openai.OpenAI":
        try:
            import openai

            from cpor.semantics.transport import bounded_client
        except ImportError:
            raise ScorerError(
                f"scorer {self.config.name} needs the openai package: pip install 'cpor-grasp[vlm]'"
            ) from None
        with self._lock:
            if self._client is None or self._client[0] != key:
                client = openai.OpenAI(
                    api_key=key or "none",  # servers of one's own ask for none; the SDK does
                    base_url=self.config.base_url or OPENAI_URL,
                    timeout=self.config.timeout_s,
                    max_retries=0,  # ours count, and are paid for
                    http_client=bounded_client(),
                )
                self._client = (key, client)
            return self._client[1]

    def _request(self, question: Question) -> dict[str, Any]:
        url = f"data:image/png;base64,{base64.b64encode(question.picture.png).decode()}"
        image = {"type": "image_url", "image_url": {"url": url, "detail": self._image_detail}}
        messages: list[dict[str, Any]] = []
        if question.system:
            messages.append({"role": "system", "content": question.system})
        messages.append({"role": "user", "content": [image, {"type": "text", "text": question.prompt}]})
        request: dict[str, Any] = {
            "model": self.config.model,
            "messages": messages,
            "stream": False,
            self._max_tokens_field: question.max_output_tokens,
        }
        if self._send_temperature:
            request["temperature"] = 0.0
        if question.wants_yes_no:
            request |= {"logprobs": True, "top_logprobs": self._top_logprobs}
        if question.schema is not None and self._structured:
            schema = {"name": "reply", "strict": True, "schema": question.schema}
            request["response_format"] = {"type": "json_schema", "json_schema": schema}
        if self._extra_body:
            request["extra_body"] = self._extra_body
        return request

    def _failure(
        self, problem: "openai.APIStatusError", question: Question, key: str | None
    ) -> ProviderFailure | ScorerError:
        status, said = problem.status_code, scrub(problem.message, key)
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
        if status == 429 and "insufficient_quota" in (problem.code or "", problem.type or ""):
            return ScorerError(f"{scorer}: the account has no credit left ({said})")
        if status == 429:
            return ProviderFailure("rate_limit", said, retry_after(problem.response.headers))
        if status >= 500 or status in (408, 409):
            return ProviderFailure("server", f"{status} {said}", retry_after(problem.response.headers))
        return ProviderFailure("refused_request", f"{status} {said}")


def retry_after(headers: Mapping[str, str]) -> float | None:
    """How long a Retry-After header asks to wait, given in seconds or as a date; in seconds."""
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


def _read(reply: dict[str, Any]) -> Completion:
    choices = reply["choices"]
    if not choices:
        raise ProviderFailure("unreadable", "a reply without choices", None, True)
    choice, usage = choices[0], reply.get("usage") or {}
    message, reason = choice["message"], choice.get("finish_reason")
    refusal = message.get("refusal")
    text = message.get("content") or refusal or ""
    if not isinstance(text, str):
        raise TypeError
    return Completion(
        text,
        _first_token(choice.get("logprobs")),
        bool(refusal) or reason == "content_filter",
        reason == "length",
        token_count(usage.get("prompt_tokens")),
        token_count(usage.get("completion_tokens")),
    )


def _first_token(logprobs: Any) -> dict[str, float] | None:
    """Candidates for the first token that is not blank."""
    for token in (logprobs.get("content") if logprobs else None) or []:
        if token["token"].strip():
            listed = [token, *(token.get("top_logprobs") or [])]
            return {each["token"]: float(each["logprob"]) for each in listed}
    return None
