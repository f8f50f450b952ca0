"""OpenAI and every server that speaks its chat completions: vLLM, Ollama, LM Studio and the like."""

import base64
import json
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
    import openai


def build(config: ScorerConfig) -> RelationScorer:
    """The scorer of a configuration with kind = "openai"."""
    return VlmScorer(config, OpenAIProvider(config))


class OpenAIProvider(HttpProvider):
    """One call to a server that speaks OpenAI's chat completions."""

    kind = "openai"
    package = "openai"
    url = "https://api.openai.com/v1"
    options = ("send_temperature", "max_tokens_field", "extra_body", "image_detail")

    def __init__(self, config: ScorerConfig) -> None:
        own_server = config.base_url is not None
        if config.api_key_env is None and not own_server:
            config = config.model_copy(update={"api_key_env": "OPENAI_API_KEY"})
        super().__init__(config)
        self._send_temperature = config.option("send_temperature", bool, True)
        default_field = "max_tokens" if own_server else "max_completion_tokens"
        self._max_tokens_field = config.option("max_tokens_field", str, default_field)
        self._extra_body = config.option("extra_body", dict, {})
        self._image_detail = config.option("image_detail", str, "auto")

    def identity(self) -> Mapping[str, object]:
        """See `Provider`."""
        return {
            **super().identity(),
            "temperature": 0 if self._send_temperature else None,
            "extra_body": self._extra_body,
            "image_detail": self._image_detail,
        }

    def _open(self, key: str | None) -> Sdk:
        import openai

        from cpor.semantics.transport import bounded_client

        client = openai.OpenAI(
            api_key=key or "none",  # servers of one's own ask for none; the SDK does
            base_url=self.address,
            timeout=self.config.timeout_s,
            max_retries=0,  # ours count, and are paid for
            http_client=bounded_client(),
        )
        return client, openai.APIStatusError, openai.APIError

    def _send(self, client: "openai.OpenAI", question: Question) -> Completion:
        raw = client.chat.completions.with_raw_response.create(**self._request(question))
        return _read(json.loads(raw.content))

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

    def _explain(
        self, problem: "openai.APIStatusError", question: Question, key: str | None
    ) -> ProviderFailure | ScorerError:
        status, said = problem.status_code, scrub(problem.message, key)
        if status == 429 and "insufficient_quota" in (problem.code or "", problem.type or ""):
            return ScorerError(f"scorer {self.config.name}: the account has no credit left ({said})")
        return self._explain_status(status, said, question, retry_after(problem.response.headers))


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
