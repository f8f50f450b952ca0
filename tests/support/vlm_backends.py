"""Scorers of both HTTP backends, against servers of ours."""

import pytest

from support.vlm_servers import GeminiHandler, OpenAIHandler

KEY = "sk-test-not-a-real-key-0123456789"
HANDLERS = {"openai": OpenAIHandler, "gemini": GeminiHandler}
BOTH = pytest.mark.parametrize("kind", ["openai", "gemini"])
WAYS = pytest.mark.parametrize("way", ["scene", "pairs"])
