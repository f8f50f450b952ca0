"""Asking with patience: from the cache if possible, within the budget, again after what may pass."""

import math
import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from cpor.errors import InvalidSettingError
from cpor.semantics.config import Budget, Prices, ScorerConfig
from cpor.semantics.provider import TRANSIENT, Completion, Provider, ProviderFailure, Question
from cpor.semantics.scorer import ScorerError, Spent

BUSY_S = 60.0
"""How long to wait for another process that is writing to the cache. [s]"""

Useful = Callable[[int, Completion], object]
"""(place of the question, its reply) -> something true if anything could be read from it.

It may raise a ScorerError where the reply shows that asking on is useless.
"""


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


class PatientCaller:
    """Puts questions to a provider, as a configuration says.

    Attributes:
        purse: Pays.
        cache: Remembers; None remembers nothing.
        on_reply: Sees the key of each question that was put, and the reply; a recording does.
        sleep: Waits between attempts; another one in tests. [s]
        clock: Tells the time; another one in tests. [s]
    """

    def __init__(self, provider: Provider, config: ScorerConfig) -> None:
        self.provider = provider
        self.config = config
        self.purse = Purse(config.budget, config.prices)
        file = default_cache_file() if config.cache is None else config.cache
        self.cache = ReplyCache(Path(file).expanduser()) if file else None
        self.on_reply: Callable[[str, Completion], None] = lambda key, reply: None
        self.sleep: Callable[[float], None] = time.sleep
        self.clock: Callable[[], float] = time.monotonic
        self._lock = threading.Lock()
        self._failures = 0
        self._rests_until = -math.inf
        self._heard = threading.Event()

    def ask_all(self, questions: Sequence[Question], useful: Useful) -> list[CallResult]:
        """Ask all questions, some at the same time; a failure of one is no failure of the others.

        Raises:
            ScorerError: The scorer is not set up or cannot do this at all; questions not yet put are dropped.
        """
        stop = threading.Event()  # of these questions alone: another thread may ask others
        if len(questions) <= 1 or self.config.at_once == 1:
            return [self._ask(k, question, useful, stop) for k, question in enumerate(questions)]
        with ThreadPoolExecutor(min(self.config.at_once, len(questions))) as pool:
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
        for attempt in range(1, self.config.attempts + 1):
            if (why := self._why_not(stop)) is not None:
                return CallResult(last, (*problems, why), attempt - 1)
            most_read = self._most_read(question)
            if (reserved := self.purse.reserve(most_read, question.max_output_tokens)) is None:
                self.purse.note(refused=1)
                return CallResult(last, (*problems, "not asked: the budget is used up"), attempt - 1)
            retry_after_s = None
            try:
                last = self._call(question, reserved)
                self.on_reply(key, last)
                is_useful = useful(place, last)
            except ScorerError:
                stop.set()
                raise
            except ProviderFailure as failure:
                problems.append(str(failure))
                reached = reached or failure.may_cost or failure.kind != "connection"
                if failure.kind not in TRANSIENT:
                    return CallResult(None, tuple(problems), attempt)
                retry_after_s = failure.retry_after_s
            else:
                reached = True
                self._heard.set()
                if is_useful:
                    problems += self._remember(key, last)
                if is_useful or _is_final(question, last):
                    return CallResult(last, tuple(problems), attempt)
                problems.append("unreadable reply")
            if retry_after_s is not None and retry_after_s > self.config.longest_wait_s:
                problems.append("given up: the provider asks to wait longer than longest_wait_s")
                return CallResult(last, tuple(problems), attempt)
            if attempt < self.config.attempts:
                self.sleep(max(self._wait_s(key, attempt), retry_after_s or 0.0))
        if not reached and not self._heard.is_set():
            stop.set()  # no server there: the other questions need not find out one by one
        return CallResult(last, tuple(problems), self.config.attempts)

    def _wait_s(self, key: str, attempt: int) -> float:
        """How long to wait after a failed attempt, in seconds.

        Half of the wait is random, so that callers that failed together do not come back together; it
        follows from the question, so a run can be repeated.
        """
        spread = 0.5 + 0.5 * random.Random(f"{key}/{attempt}").random()
        return spread * min(self.config.first_wait_s * 2.0 ** (attempt - 1), self.config.longest_wait_s)

    def _remember(self, key: str, reply: Completion) -> list[str]:
        """Put a reply into the cache; where that fails, the problem: what is paid for is not thrown away."""
        try:
            if self.cache is not None:
                self.cache.put(key, reply)
        except ScorerError as problem:
            return [f"not remembered: {problem}"]
        return []

    def _most_read(self, question: Question) -> int:
        """Most input tokens of a question: a token is at least one byte of text, whatever the tokeniser."""
        text = len(question.prompt.encode()) + len((question.system or "").encode())
        text += len(str(question.schema)) if question.schema else 0
        return text + self.config.picture_tokens

    def _call(self, question: Question, reserved: Spent) -> Completion:
        """One call, paid for beforehand."""
        failed = True
        read, written = reserved.input_tokens, reserved.output_tokens
        try:
            reply = self.provider.complete(question)
            read = read if reply.input_tokens is None else reply.input_tokens
            written = written if reply.output_tokens is None else reply.output_tokens
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
            self._note(failed)

    def _why_not(self, stop: threading.Event) -> str | None:
        """Why the provider is not asked now; None where it is.

        After `rest_after` failures in a row it is left alone for a while. Then one call is let through.
        """
        if stop.is_set():
            return "given up: the server was not reached, or a call failed for good"
        with self._lock:
            now = self.clock()
            if self._failures < self.config.rest_after:
                return None
            if now >= self._rests_until:
                self._rests_until = now + self.config.rest_s  # the others wait for what comes of this one
                return None
            left = max(math.ceil(self._rests_until - now), 1)
            return f"not asked: the last {self._failures} calls failed; asked again in {left} s"

    def _note(self, failed: bool) -> None:
        with self._lock:
            self._failures = self._failures + 1 if failed else 0
            if self._failures >= self.config.rest_after:
                self._rests_until = self.clock() + self.config.rest_s


def _is_final(question: Question, reply: Completion) -> bool:
    """Whether the same reply is to be expected of another call."""
    lacks_logprobs = question.wants_yes_no and reply.first_token is None and bool(reply.text.strip())
    return reply.refused or reply.cut or lacks_logprobs


class Purse:
    """A hard limit on calls, tokens and money; safe to use from several threads.

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
        self._spent = Spent()

    @property
    def spent(self) -> Spent:
        """Spent so far; calls under way count with the most they can cost."""
        with self._lock:
            return self._spent

    def reserve(self, input_tokens: int, output_tokens: int) -> Spent | None:
        """Pay for a call that costs at most so many tokens; None where the budget does not allow it."""
        most = self._call(input_tokens, output_tokens)
        with self._lock:
            after = self._spent + most
            limits = (
                (self.budget.calls, after.calls),
                (self.budget.tokens, after.tokens),
                (self.budget.money, after.money - 1e-12),
            )
            if any(limit is not None and value > limit for limit, value in limits):
                return None
            self._spent = after
            return most

    def settle(self, reserved: Spent, input_tokens: int, output_tokens: int) -> None:
        """Put the true cost of a call in the place of what was reserved for it."""
        with self._lock:
            self._spent += self._call(input_tokens, output_tokens) - reserved

    def note(self, remembered: int = 0, refused: int = 0) -> None:
        """Count questions that cost nothing."""
        with self._lock:
            self._spent += Spent(remembered=remembered, refused=refused)

    def _call(self, read: int, written: int) -> Spent:
        prices = self.prices
        money = 1e-6 * (read * prices.input_per_million + written * prices.output_per_million)
        return Spent(1, read, written, money)


def default_cache_file() -> Path:
    """Where replies are remembered unless a configuration says otherwise."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "cpor" / "replies.sqlite"


class ReplyCache:
    """Completions by key in one SQLite file, which several threads and processes may use at the same time.

    Nothing about the user, no key and no picture is in it.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def get(self, key: str) -> Completion | None:
        """The reply remembered under a key; a damaged one counts as none."""
        with self._opened() as connection:
            row = connection.execute("SELECT reply FROM replies WHERE key = ?", (key,)).fetchone()
        try:
            return None if row is None else Completion.from_json(row[0])
        except ValueError:
            return None

    def put(self, key: str, reply: Completion) -> None:
        """Remember a reply; an older one under the same key goes."""
        with self._opened() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO replies (key, reply, at) VALUES (?, ?, ?)",
                (key, reply.to_json(), time.time()),
            )

    def __len__(self) -> int:
        with self._opened() as connection:
            return int(connection.execute("SELECT count(*) FROM replies").fetchone()[0])

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """A connection of its own for one statement, since a connection belongs to one thread."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=BUSY_S)) as connection, connection:
                connection.execute(
                    "CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, reply TEXT, at REAL)"
                )
                yield connection
        except (OSError, sqlite3.Error) as problem:
            raise ScorerError(
                f"the cache of replies {self.path} cannot be used ({problem}); delete it, or set another "
                "`cache`"
            ) from None
