"""A hard limit on calls, tokens and money: reserved before a call, settled after it."""

import threading
from dataclasses import dataclass

from cpor.errors import InvalidSettingError


@dataclass(frozen=True)
class Prices:
    """What tokens cost, in any one currency.

    Attributes:
        input_per_million: Price of a million tokens read.
        output_per_million: Price of a million tokens written.
    """

    input_per_million: float = 0.0
    output_per_million: float = 0.0

    def of(self, input_tokens: int, output_tokens: int) -> float:
        """Price of so many tokens."""
        return 1e-6 * (input_tokens * self.input_per_million + output_tokens * self.output_per_million)


@dataclass(frozen=True)
class Spent:
    """What was used up.

    Attributes:
        calls: Requests sent, retries among them.
        input_tokens: Tokens read by the model, as the provider counts them.
        output_tokens: Tokens written by the model.
        money: In the currency of the prices; 0 where none are given.
        remembered: Questions answered from the cache, for nothing.
        refused: Questions not asked because the budget was used up.
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    money: float = 0.0
    remembered: int = 0
    refused: int = 0

    @property
    def tokens(self) -> int:
        """Tokens read and written."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: "Spent") -> "Spent":
        return self._combine(other, 1)

    def __sub__(self, other: "Spent") -> "Spent":
        return self._combine(other, -1)

    def _combine(self, other: "Spent", sign: int) -> "Spent":
        return Spent(
            self.calls + sign * other.calls,
            self.input_tokens + sign * other.input_tokens,
            self.output_tokens + sign * other.output_tokens,
            self.money + sign * other.money,
            self.remembered + sign * other.remembered,
            self.refused + sign * other.refused,
        )


@dataclass(frozen=True)
class Budget:
    """Limits; None is no limit.

    Attributes:
        calls: Most requests to send, retries counted.
        tokens: Most tokens to read and write.
        money: Most money to spend; needs prices.
    """

    calls: int | None = None
    tokens: int | None = None
    money: float | None = None

    def allows(self, spent: Spent) -> bool:
        """Whether so much stays within every limit."""
        return (
            (self.calls is None or spent.calls <= self.calls)
            and (self.tokens is None or spent.tokens <= self.tokens)
            and (self.money is None or spent.money <= self.money + 1e-12)
        )


class Purse:
    """Keeps the books of one scorer; safe to use from several threads.

    A call is paid before it is sent, with the most it can cost, and the rest comes back once its true
    cost is known. So no limit is passed however many calls are under way, as long as no call costs more
    than the most it was said to.
    """

    def __init__(self, budget: Budget, prices: Prices) -> None:
        if budget.money is not None and prices == Prices():
            raise InvalidSettingError("a budget in money needs [prices]; give them, or limit calls or tokens")
        self.budget = budget
        self.prices = prices
        self._lock = threading.Lock()
        self._settled = Spent()
        self._reserved = Spent()

    @property
    def spent(self) -> Spent:
        """Spent so far; calls under way count with the most they can cost."""
        with self._lock:
            return self._settled + self._reserved

    def reserve(self, input_tokens: int, output_tokens: int) -> Spent | None:
        """Pay for a call that costs at most so many tokens; None where the budget does not allow it."""
        most = Spent(1, input_tokens, output_tokens, self.prices.of(input_tokens, output_tokens))
        with self._lock:
            if not self.budget.allows(self._settled + self._reserved + most):
                return None
            self._reserved += most
            return most

    def settle(self, reserved: Spent, input_tokens: int, output_tokens: int) -> None:
        """Put the true cost of a call in the place of what was reserved for it."""
        true = Spent(1, input_tokens, output_tokens, self.prices.of(input_tokens, output_tokens))
        with self._lock:
            self._reserved -= reserved
            self._settled += true

    def note(self, remembered: int = 0, refused: int = 0) -> None:
        """Count questions that cost nothing."""
        with self._lock:
            self._settled += Spent(remembered=remembered, refused=refused)
