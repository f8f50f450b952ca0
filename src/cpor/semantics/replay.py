"""Recorded replies, offline: what a model said once is read again by the same code, without a call.

A recording is a file of JSON lines: first the configuration it was made with and the server it asked, then
one line a reply. It holds no key and no picture.
"""

import json
import threading
from collections.abc import Mapping
from pathlib import Path

from cpor.semantics.config import ScorerConfig, config_from, holds_secret
from cpor.semantics.provider import Completion, ProviderFailure, Question, Readiness
from cpor.semantics.scorer import RelationScorer, ScorerError
from cpor.semantics.unograsp import UnoGraspScorer
from cpor.semantics.vlm import ModelScorer, VlmScorer

_OPTIONS = ("recording",)


def build(config: ScorerConfig) -> RelationScorer:
    """The scorer of a configuration with kind = "replay"; `options.recording` is the file."""
    config.check_options(_OPTIONS)
    path = config.option("recording", str)
    if path is None:
        raise ScorerError(
            f"scorer {config.name}: set recording, in [options], to the file of recorded replies"
        )
    return replay(Path(path).expanduser())


def replay(path: Path) -> RelationScorer:
    """A scorer that answers from a recording; what is not in it gets no answer."""
    provider = RecordedProvider(path)
    # A recording holds what was said of pairs, so words are left to our own judge.
    config = provider.config.model_copy(update={"cache": False, "attempts": 1, "words": False})
    return (UnoGraspScorer if config.kind == "unograsp" else VlmScorer)(config, provider)


class RecordedProvider:
    """Answers from a recording."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
            head = json.loads(lines[0])
            self.config = config_from(head["config"], "replay", str(path))
            self._identity: dict[str, object] = dict(head["identity"])
            self._replies = dict(_reply(line) for line in lines[1:] if line.strip())
        except OSError as problem:
            raise ScorerError(f"cannot read the recording {path}: {problem.strerror}") from None
        except (ValueError, KeyError, TypeError, IndexError):
            raise ScorerError(f"{path} is no recording of replies, or is damaged; record it again") from None

    def identity(self) -> Mapping[str, object]:
        """See `Provider`."""
        return self._identity

    def readiness(self) -> Readiness:
        """See `Provider`."""
        return Readiness()

    def complete(self, question: Question) -> Completion:
        """See `Provider`."""
        reply = self._replies.get(question.key(self._identity))
        if reply is None:
            raise ProviderFailure("refused_request", f"{self.path.name} holds no reply to this question")
        return reply


def record(scorer: RelationScorer, path: Path) -> RelationScorer:
    """The same scorer, which also writes a recording; it remembers nothing, so that all replies are in it."""
    if not isinstance(scorer, ModelScorer):
        raise ScorerError(f"scorer {scorer.name} asks no model; there is nothing to record")
    settings = scorer.config.model_dump(exclude_defaults=True)
    if holds_secret(settings | {"api_key_env": None}):
        raise ScorerError(
            f"scorer {scorer.name} is configured with a key, which the recording would hold; take it out"
        )
    lock = threading.Lock()

    def write(mode: str, content: dict[str, object]) -> None:
        try:
            with lock, path.open(mode, encoding="utf-8") as file:
                file.write(json.dumps(content) + "\n")
        except OSError as problem:
            raise ScorerError(f"cannot write the recording {path}: {problem.strerror}") from None

    write("w", {"config": settings, "identity": dict(scorer.provider.identity())})
    scorer.caller.cache = None
    scorer.caller.on_reply = lambda key, reply: write("a", {"key": key, "reply": json.loads(reply.to_json())})
    return scorer


def _reply(line: str) -> tuple[str, Completion]:
    content = json.loads(line)
    return content["key"], Completion.from_json(json.dumps(content["reply"]))
