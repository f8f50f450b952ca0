"""Keys are read when a call is made, from the variable a configuration names, and kept out of messages."""

import os
import re
from urllib.parse import urlsplit

from cpor.semantics.config import ScorerConfig
from cpor.semantics.scorer import ScorerError

_LOOKS_SECRET = re.compile(
    r"(?i)\b(sk-[\w-]{6,}|AIza[\w-]{10,}|hf_\w{8,}|bearer\s+\S+)|(?<=[?&]key=)[^&\s'\"]+|(?<=//)[^/@\s]+:[^/@\s]+(?=@)"
)


def read_key(config: ScorerConfig) -> str | None:
    """The key, or None where the configuration names no variable.

    Raises:
        ScorerError: The variable is not set; the message names it.
    """
    if config.api_key_env is None:
        return None
    key = os.environ.get(config.api_key_env, "").strip()
    if not key:
        raise ScorerError(
            f"scorer {config.name} needs a key: set the environment variable {config.api_key_env}"
        )
    return key


def why_no_key(config: ScorerConfig) -> str | None:
    """What is missing, where a key is."""
    try:
        read_key(config)
    except ScorerError:
        return f"{config.api_key_env} is not set"
    return None


def scrub(text: object, key: str | None, most: int = 300) -> str:
    """A message without the key and without anything that looks like one, on one line."""
    said = str(text)
    if key:
        said = said.replace(key, "***")
    said = " ".join(_LOOKS_SECRET.sub("***", said).split())
    return said if len(said) <= most else said[: most - 1] + "…"


def address_of(url: str) -> tuple[str, int] | None:
    """Host and port of a URL; None where it has none."""
    try:
        parts = urlsplit(url)
        port = parts.port or (80 if parts.scheme == "http" else 443)
    except ValueError:
        return None
    return None if parts.hostname is None else (parts.hostname, port)
