"""How large a sample is: small in the tests, as large as our claims say where evidence is measured."""

import os
from typing import TypeVar

T = TypeVar("T")


def sized(small: T, large: T) -> T:
    """The first in the tests; the second where benchmarks/evidence_table.py measures its part `tests`."""
    return large if os.environ.get("CPOR_EVIDENCE") else small
