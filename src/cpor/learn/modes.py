"""One risk setting with four names: how sure the robot must be before it acts.

The score of an action is the probability that it is right. `cautious` acts above the threshold that a model's
promise was tested with, or above 90 % where nothing is promised; `balanced` above 50 %, `bold` above 30 %.
A bolder mode never asks for more than a more cautious one. `robust` has the threshold of `cautious`, and acts
only where the score is proven to stay above it while the odds of every relation are off by ROBUST_FACTOR, and
while each lies anywhere within the band that the model gives its beliefs (`cpor.learn.band`).
"""

from typing import Literal, TypeAlias, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

from cpor.errors import one_of

Mode: TypeAlias = Literal["robust", "cautious", "balanced", "bold"]
MODES: tuple[Mode, ...] = get_args(Mode)

DEFAULT_MODE: Mode = "cautious"
"""Mode of every surface where a person can be asked."""

UNATTENDED_MODE: Mode = "balanced"
"""Mode of the demo, where no person is asked: it would give up where a cautious robot asks."""

LEAST_SCORE: dict[Mode, float] = {"robust": 0.9, "cautious": 0.9, "balanced": 0.5, "bold": 0.3}
"""Act above this probability of being right, where no tested threshold is lower."""


ROBUST_FACTOR = 1.2
"""Factor in odds by which every relation may be off at once where the mode is `robust`."""


class ModeFigures(BaseModel):
    """What a mode did on labelled scenes that no other part of the fit had seen.

    Attributes:
        tau: Its threshold.
        n: Scenes, one target each.
        n_acted: Those in which it acted.
        n_wrong: Wrong actions among these.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    tau: float = Field(ge=0.0, le=1.0)
    n: int = Field(ge=0)
    n_acted: int = Field(ge=0)
    n_wrong: int = Field(ge=0)

    @model_validator(mode="after")
    def _check_counts(self) -> "ModeFigures":
        if not self.n_wrong <= self.n_acted <= self.n:
            raise ValueError(f"{self.n_wrong} wrong of {self.n_acted} actions in {self.n} scenes is no count")
        return self

    def in_words(self) -> str:
        """Such as "in tests, about 1 in 10 such actions was wrong"."""
        if self.n_acted == 0:
            return f"in tests on {self.n} scenes it never acted"
        counted = f"{self.n_wrong} of {self.n_acted}, in {self.n} scenes"
        if self.n_wrong == 0:
            return f"in tests, none of {self.n_acted} such actions was wrong ({self.n} scenes)"
        share = max(2, round(self.n_acted / self.n_wrong))
        if self.n_wrong / self.n_acted > 0.4:
            return f"in tests, about half of such actions were wrong ({counted})"
        return f"in tests, about 1 in {share} such actions was wrong ({counted})"


def percent(share: float) -> str:
    """Such as "5%" and "0.2%": small shares are not rounded to nothing."""
    return f"{100.0 * share:.3g}%"


def parse_mode(name: str) -> Mode:
    """The mode of a name.

    Raises:
        InvalidSettingError: There is no such mode.
    """
    return one_of("mode", name, MODES)


def mode_tau(mode: Mode, promised: float | None = None) -> float:
    """The threshold of a mode.

    Args:
        mode: The mode.
        promised: The threshold that a promise was tested with; None: nothing is promised.
    """
    if promised is None:
        return LEAST_SCORE[mode]
    return promised if mode in ("robust", "cautious") else min(promised, LEAST_SCORE[mode])
