"""Asking with patience: from the cache if possible, within the budget, again after what may pass."""

import math
import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from cpor.errors import InvalidSettingError
from cpor.semantics.budget import Purse
from cpor.semantics.cache import ReplyCache
from cpor.semantics.provider import TRANSIENT, Completion, Provider, ProviderFailure, Question
from cpor.semantics.scorer import ScorerError

Useful = Callable[[int, Completion], object]
"""(place of the question, its reply) -> something true if anything could be read from it.

It may raise a ScorerError where the reply shows that asking on is useless.
"""


@dataclass(frozen=True)
class Patience:
    """How long to try.

    Attributes:
        attempts: Calls for one question at most.
        first_wait_s: Wait after the first failure, which doubles with each further one. [s]
        longest_wait_s: No single wait is longer; a provider that asks for more is given up on. [s]
        at_once: Calls under way at the same time.
        rest_after: After so many failed calls in a row the provider is left alone for a while.
        rest_s: How long; then one call tries again. [s]
    """

    attempts: int = 4
    first_wait_s: float = 1.0
    longest_wait_s: float = 60.0
    at_once: int = 4
    rest_after: int = 10
    rest_s: float = 30.0

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.at_once < 1 or self.rest_after < 1:
            raise InvalidSettingError("attempts, at_once and rest_after must be at least 1")
        if not 0.0 <= self.first_wait_s <= self.longest_wait_s:
            raise InvalidSettingError("first_wait_s must lie between 0 and longest_wait_s")

    def wait_s(self, key: str, attempt: int, retry_after_s: float | None) -> float | None:
        """How long to wait after a failed attempt; in seconds; None: give up.

        Half of the wait is random, so that callers that failed together do not come back together; it
        follows from the question, so a run can be repeated.
        """
        if retry_after_s is not None and retry_after_s > self.longest_wait_s:
            return None
        spread = 0.5 + 0.5 * random.Random(f"{key}/{attempt}").random()
        wait = spread * min(self.first_wait_s * 2.0 ** (attempt - 1), self.longest_wait_s)
        return max(wait, retry_after_s or 0.0)


@dataclass(frozen=True)
class CallResult:
    """What came of one question.

    Attributes:
        completion: The last reply; None where none came.
        problems: What went wrong on the way, in words.
        attempts: Calls made; 0 where it was remembered, or not asked at all.
    """

    completion: Completion | None
    problems: tuple[str, ...] = ()
    attempts: int = 0


@dataclass(eq=False)
class PatientCaller:
    """Puts questions to a provider.

    Attributes:
        provider: The provider to ask.
        patience: How long to try.
        purse: Pays.
        cache: Remembers; None remembers nothing.
        picture_tokens: Most input tokens a picture can cost.
        sleep: Waits between attempts; another one in tests. [s]
        clock: Tells the time; another one in tests. [s]
    """

    provider: Provider
    patience: Patience
    purse: Purse
    cache: ReplyCache | None = None
    picture_tokens: int = 4096
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    _breaker: "_Breaker" = field(init=False, repr=False)
    _heard: threading.Event = field(default_factory=threading.Event, init=False, repr=False)

    def __post_init__(self) -> None:
        self._breaker = _Breaker(self.patience)

    def ask_all(self, questions: Sequence[Question], useful: Useful) -> list[CallResult]:
        """Ask all questions, some at the same time; a failure of one is no failure of the others.

        Raises:
            ScorerError: The scorer is not set up or cannot do this at all; questions not yet put are dropped.
        """
        stop = threading.Event()  # of these questions alone: another thread may ask others
        if len(questions) <= 1 or self.patience.at_once == 1:
            return [self._ask(k, question, useful, stop) for k, question in enumerate(questions)]
        with ThreadPoolExecutor(min(self.patience.at_once, len(questions))) as pool:
            under_way = [
                pool.submit(self._ask, k, question, useful, stop) for k, question in enumerate(questions)
            ]
            try:
                return [each.result() for each in under_way]
            except BaseException:  # an interrupt too: what waits must not be asked, and paid for, any more
                stop.set()
                pool.shutdown(cancel_futures=True)
                raise

    def _ask(self, place: int, question: Question, useful: Useful, stop: threading.Event) -> CallResult:
        key = question.key(self.provider.identity())
        known = None if self.cache is None else self.cache.get(key)
        if known is not None and useful(place, known):
            self.purse.note(remembered=1)
            return CallResult(known)
        problems: list[str] = []
        last: Completion | None = None
        reached = False
        for attempt in range(1, self.patience.attempts + 1):
            if stop.is_set():
                return CallResult(
                    last,
                    (*problems, "given up: the server was not reached, or a call failed for good"),
                    attempt - 1,
                )
            if (resting := self._breaker.why_not(self.clock())) is not None:
                return CallResult(last, (*problems, resting), attempt - 1)
            try:
                last = self._call(question)
                is_useful = useful(place, last)
            except _BudgetUsedUp:
                self.purse.note(refused=1)
                return CallResult(last, (*problems, "not asked: the budget is used up"), attempt - 1)
            except ScorerError:
                stop.set()
                raise
            except ProviderFailure as failure:
                problems.append(str(failure))
                reached = reached or failure.may_cost or failure.kind != "connection"
                wait = self.patience.wait_s(key, attempt, failure.retry_after_s)
                if failure.kind not in TRANSIENT:
                    return CallResult(None, tuple(problems), attempt)
            else:
                reached = True
                self._heard.set()
                if is_useful:
                    problems += self._remember(key, last)
                    return CallResult(last, tuple(problems), attempt)
                if _is_final(question, last):
                    return CallResult(last, tuple(problems), attempt)  # asking again would change nothing
                problems.append("unreadable reply")
                wait = self.patience.wait_s(key, attempt, None)
            if wait is None:
                problems.append("given up: the provider asks to wait longer than longest_wait_s")
                return CallResult(last, tuple(problems), attempt)
            if attempt < self.patience.attempts:
                self.sleep(wait)
        if not reached and not self._heard.is_set():
            stop.set()  # no server there: the other questions need not find out one by one
        return CallResult(last, tuple(problems), self.patience.attempts)

    def _remember(self, key: str, reply: Completion) -> list[str]:
        """Put a reply into the cache; where that fails, the problem: what is paid for is not thrown away."""
        try:
            if self.cache is not None:
                self.cache.put(key, reply)
        except ScorerError as problem:
            return [f"not remembered: {problem}"]
        return []

    def _call(self, question: Question) -> Completion:
        """One call, paid for beforehand."""
        # A token is at least one byte of text, whatever the tokeniser.
        text = len(question.prompt.encode()) + len((question.system or "").encode())
        text += len(str(question.schema)) if question.schema else 0
        most_read = text + self.picture_tokens
        reserved = self.purse.reserve(most_read, question.max_output_tokens)
        if reserved is None:
            raise _BudgetUsedUp
        failed = True
        read, written = most_read, question.max_output_tokens
        try:
            reply = self.provider.complete(question)
            read = most_read if reply.input_tokens is None else reply.input_tokens
            written = question.max_output_tokens if reply.output_tokens is None else reply.output_tokens
            failed = False
            return reply
        except ProviderFailure as failure:
            if not failure.may_cost:
                read = written = 0
            raise
        except ScorerError:
            read = written = 0
            raise
        finally:
            self.purse.settle(reserved, read, written)
            self._breaker.note(failed, self.clock())


class _Breaker:
    """Leaves a provider alone that keeps failing; safe to use from several threads."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._failures = 0
        self._rests_until = -math.inf
        self._lock = threading.Lock()

    def why_not(self, now: float) -> str | None:
        """Why the provider is not asked now; None where it is. After a rest one call is let through."""
        with self._lock:
            if self._failures < self._patience.rest_after:
                return None
            if now >= self._rests_until:
                self._rests_until = now + self._patience.rest_s  # the others wait for what comes of this one
                return None
            left = max(math.ceil(self._rests_until - now), 1)
            return f"not asked: the last {self._failures} calls failed; asked again in {left} s"

    def note(self, failed: bool, now: float) -> None:
        """What came of a call."""
        with self._lock:
            self._failures = self._failures + 1 if failed else 0
            if self._failures >= self._patience.rest_after:
                self._rests_until = now + self._patience.rest_s


def _is_final(question: Question, reply: Completion) -> bool:
    """Whether the same reply is to be expected of another call."""
    return reply.refused or reply.cut or _lacks_logprobs(question, reply)


def _lacks_logprobs(question: Question, reply: Completion) -> bool:
    return question.wants_yes_no and reply.first_token is None and bool(reply.text.strip())


class _BudgetUsedUp(Exception):  # noqa: N818 - a signal within this file
    pass
