"""What one look at the input found: the name of the check, its state, a sentence and a remedy."""

from dataclasses import asdict, dataclass
from typing import Literal

CheckState = Literal["pass", "doubt", "fail"]
"""`doubt`: nothing is promised. `fail`: nothing is done either, unless the user overrides it."""


@dataclass(frozen=True)
class Check:
    """One thing that was looked at before a decision.

    Attributes:
        name: Stable key, such as `depth_coverage`.
        state: What came of it.
        says: One plain sentence: what was found.
        remedy: What to do; empty where it passes.
    """

    name: str
    state: CheckState
    says: str
    remedy: str = ""

    def to_json(self) -> dict[str, str]:
        """The fields by name."""
        return asdict(self)


def graded(name: str, value: float, limits: tuple[float, float], says: str, remedy: str) -> Check:
    """Doubt where a value lies below the first limit, failure below the second."""
    if value >= limits[0]:
        return Check(name, "pass", says)
    return Check(name, "fail" if value < limits[1] else "doubt", says, remedy)
