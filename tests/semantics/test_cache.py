import multiprocessing
import sqlite3
import threading

import pytest

from cpor.errors import InvalidSettingError
from cpor.semantics.calls import Purse, ReplyCache
from cpor.semantics.config import Budget, Prices
from cpor.semantics.provider import Completion
from cpor.semantics.scorer import ScorerError, Spent

REPLY = Completion("yes", {"yes": -0.1, "no": -2.4}, False, False, 900, 1)


def test_a_reply_comes_back_as_it_was(tmp_path):
    cache = ReplyCache(tmp_path / "new" / "c.sqlite")
    assert cache.get("a") is None
    cache.put("a", REPLY)
    assert cache.get("a") == REPLY and len(cache) == 1
    assert ReplyCache(tmp_path / "new" / "c.sqlite").get("a") == REPLY


@pytest.mark.parametrize(
    "damage",
    ["", "{", "[]", '{"text": 3}', '{"words": "yes"}', "null", '{"text": "y", "first_token": {"y": "1"}}'],
)
def test_a_damaged_reply_counts_as_none_and_is_replaced(damage, tmp_path):
    cache = ReplyCache(tmp_path / "c.sqlite")
    cache.put("a", REPLY)
    database = sqlite3.connect(tmp_path / "c.sqlite")
    database.execute("UPDATE replies SET reply = ?", (damage,))
    database.commit()
    database.close()
    assert cache.get("a") is None
    cache.put("a", REPLY)
    assert cache.get("a") == REPLY


def test_a_file_that_is_no_cache_is_an_error_that_says_what_to_do(tmp_path):
    (tmp_path / "c.sqlite").write_bytes(b"this is not a database, not even nearly" * 50)
    with pytest.raises(ScorerError, match="delete it"):
        ReplyCache(tmp_path / "c.sqlite").get("a")
    with pytest.raises(ScorerError, match="cannot be used"):
        ReplyCache(tmp_path / "c.sqlite" / "below").get("a")


def _write(path, start):
    cache = ReplyCache(path)
    for k in range(start, start + 300):
        cache.put(str(k), Completion(f"reply {k}"))
        assert cache.get(str(k)) == Completion(f"reply {k}")


@pytest.mark.slow
def test_four_processes_write_at_the_same_time(tmp_path):
    path = tmp_path / "c.sqlite"
    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=_write, args=(path, start)) for start in (0, 150, 300, 450)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert [worker.exitcode for worker in workers] == [0] * 4
    cache = ReplyCache(path)
    assert len(cache) == 750
    assert all(cache.get(str(k)) == Completion(f"reply {k}") for k in range(750))


def test_threads_write_at_the_same_time(tmp_path):
    cache = ReplyCache(tmp_path / "c.sqlite")
    threads = [threading.Thread(target=cache.put, args=(str(k), REPLY)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(cache) == 8


def test_a_purse_never_passes_its_limits_from_many_threads():
    purse = Purse(Budget(calls=50, tokens=20_000), Prices())
    most = []

    def spend():
        for _ in range(40):
            if (paid := purse.reserve(300, 100)) is not None:
                most.append(purse.spent)
                purse.settle(paid, 250, 60)

    threads = [threading.Thread(target=spend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert purse.spent == Spent(50, 12_500, 3_000)
    assert all(spent.calls <= 50 and spent.tokens <= 20_000 for spent in most)


def test_money_follows_from_tokens_and_needs_prices():
    purse = Purse(Budget(money=1.0), Prices(input_per_million=2.0, output_per_million=10.0))
    paid = purse.reserve(100_000, 50_000)
    assert paid.money == pytest.approx(0.7)
    assert purse.reserve(100_000, 50_000) is None
    purse.settle(paid, 100_000, 10_000)
    assert purse.spent.money == pytest.approx(0.3)
    with pytest.raises(InvalidSettingError, match="prices"):
        Purse(Budget(money=1.0), Prices())
