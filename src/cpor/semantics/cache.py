"""Replies remembered on disk: one SQLite file that several processes may use at the same time."""

import os
import sqlite3
import threading
import time
from pathlib import Path

from cpor.semantics.provider import Completion
from cpor.semantics.scorer import ScorerError

BUSY_S = 60.0
"""How long to wait for another process that is writing. [s]"""


def default_cache_file() -> Path:
    """Where replies are remembered unless a configuration says otherwise."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "cpor" / "replies.sqlite"


class ReplyCache:
    """Completions by key. Nothing about the user, no key and no picture is in it.

    SQLite's write-ahead log lets one process write while others read, and a process that dies leaves the
    file whole. Each thread has a connection of its own, and so does each process after a fork.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._local = threading.local()
        self._opened: list[tuple[int, sqlite3.Connection]] = []
        self._lock = threading.Lock()

    def get(self, key: str) -> Completion | None:
        """The reply remembered under a key; a damaged one counts as none."""
        try:
            row = self._connection().execute("SELECT reply FROM replies WHERE key = ?", (key,)).fetchone()
            return None if row is None else Completion.from_json(row[0])
        except ValueError:
            return None
        except sqlite3.Error as problem:
            raise self._error(problem) from None

    def put(self, key: str, reply: Completion) -> None:
        """Remember a reply; an older one under the same key goes."""
        try:
            with self._connection() as connection:
                connection.execute(
                    "INSERT OR REPLACE INTO replies (key, reply, at) VALUES (?, ?, ?)",
                    (key, reply.to_json(), time.time()),
                )
        except sqlite3.Error as problem:
            raise self._error(problem) from None

    def __len__(self) -> int:
        try:
            return int(self._connection().execute("SELECT count(*) FROM replies").fetchone()[0])
        except sqlite3.Error as problem:
            raise self._error(problem) from None

    def close(self) -> None:
        """Close the connections of this process."""
        with self._lock:
            for pid, connection in self._opened:
                if pid == os.getpid():
                    connection.close()
            self._opened.clear()
            self._local = threading.local()

    def _connection(self) -> sqlite3.Connection:
        mine: tuple[int, sqlite3.Connection] | None = getattr(self._local, "mine", None)
        if mine is None or mine[0] != os.getpid():
            mine = (os.getpid(), self._open())
            self._local.mine = mine
            with self._lock:
                self._opened.append(mine)
        return mine[1]

    def _open(self) -> sqlite3.Connection:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Closed from another thread at the end, used by its own until then.
            connection = sqlite3.connect(self.path, timeout=BUSY_S, check_same_thread=False)
        except (OSError, sqlite3.Error) as problem:
            raise self._error(problem) from None
        try:
            _set_up(connection)
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _error(self, problem: Exception) -> ScorerError:
        return ScorerError(
            f"the cache of replies {self.path} cannot be used ({problem}); delete it, or set another `cache`"
        )


def _set_up(connection: sqlite3.Connection) -> None:
    """Make the table. SQLite does not wait for others while it switches to the write-ahead log, so we do."""
    give_up = time.monotonic() + BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(
                "CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, reply TEXT, at REAL)"
            )
            connection.commit()
            return
        except sqlite3.OperationalError as problem:
            if "locked" not in str(problem) or time.monotonic() > give_up:
                raise
            time.sleep(0.02)
