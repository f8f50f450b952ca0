"""Keys are read when a call is made, from the variable a configuration names, and kept out of messages."""

import os
import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from cpor.semantics.scorer import ScorerError

if TYPE_CHECKING:
    from cpor.semantics.config import ScorerConfig

_LOOKS_SECRET = re.compile(
    r"(?i)\b(sk-[\w-]{6,}|AIza[\w-]{10,}|hf_\w{8,}|bearer\s+\S+)|(?<=[?&]key=)[^&\s'\"]+|(?<=//)[^/@\s:]*:[^/@\s]+(?=@)"
)
# A `prompt_cache_key` is none.
_SECRET_NAME = re.compile(r"(?i)(?<!cache)(?<!cache[_-])key$|api_?key|secret|passw|authorization")


def holds_secret(content: object, name: str = "") -> bool:
    """Whether a configuration, or a part of it, seems to hold a key: by a field's name, or by a value."""
    if content is not None and _SECRET_NAME.search(name):
        return True
    if isinstance(content, dict):
        return any(holds_secret(value, str(field)) for field, value in content.items())
    if isinstance(content, list):
        return any(holds_secret(value) for value in content)
    return isinstance(content, str) and _LOOKS_SECRET.search(content) is not None


def read_key(config: "ScorerConfig") -> str | None:
    """The key, or None where the configuration names no variable.

    Raises:
        ScorerError: The variable is not set, or holds what cannot be a key; the message names it.
    """
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


def why_no_key(config: "ScorerConfig") -> str | None:
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
