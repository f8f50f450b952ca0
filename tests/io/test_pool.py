"""What comes of work does not depend on where it is done, and a worker that dies costs nothing."""

import os
import signal
import time
from functools import partial
from pathlib import Path

import pytest

from cpor.errors import CporError, InvalidSettingError
from cpor.io.pool import Pool


@pytest.fixture(params=[1, 2])
def pool(request):
    return Pool(request.param)


def square(k):
    time.sleep(0.02 if k % 2 else 0.0)  # so that they end in another order than they began
    return k * k


def refuse(k):
    raise InvalidSettingError(f"{k} is refused")


def die(folder, how_often, k):
    """The worker of item 3 dies so many times."""
    died = len(list(Path(folder).iterdir()))
    if k == 3 and died < how_often:
        Path(folder, str(died)).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return k


def test_every_item_comes_with_its_result(pool):
    assert sorted(pool.do_all(square, range(7))) == [(k, k * k) for k in range(7)]
    assert list(pool.do_all(square, [])) == []


def test_an_item_that_is_nothing_is_an_item(pool):
    assert list(pool.do_all(repr, [None])) == [(None, "None")]


def test_an_error_of_the_work_is_raised_as_it_is(pool):
    with pytest.raises(InvalidSettingError, match="5 is refused"):
        list(pool.do_all(refuse, [5]))


@pytest.mark.slow
def test_ray_does_the_same():
    ray = pytest.importorskip("ray", reason="pip install 'cpor-grasp[ray]'")
    pool = Pool(2, "ray")
    working = pool.do_all(square, range(7))
    done = [next(working)]  # it started Ray …
    test_every_item_comes_with_its_result(pool)
    test_an_item_that_is_nothing_is_an_item(pool)
    test_an_error_of_the_work_is_raised_as_it_is(pool)
    assert ray.is_initialized()  # … which is not theirs to end, …
    assert sorted([*done, *working]) == [(k, k * k) for k in range(7)]
    assert not ray.is_initialized()  # … and ended it


@pytest.mark.slow
def test_a_worker_that_dies_costs_nothing(tmp_path):
    # Once among others, and once more where it has a worker to itself.
    done = Pool(2).do_all(partial(die, tmp_path, 2), range(6))
    assert sorted(done) == [(k, k) for k in range(6)]
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.slow
def test_workers_that_always_die_end_it_and_name_the_item(tmp_path):
    with pytest.raises(CporError, match=r"died 3 times at 3 .*what is finished is kept"):
        list(Pool(2).do_all(partial(die, tmp_path, 99), range(4)))


@pytest.mark.parametrize(
    ("workers", "engine", "said"), [(0, "local", "at least 1"), (1, "slurm", "choose one of: local, ray")]
)
def test_what_cannot_be_is_refused(workers, engine, said):
    with pytest.raises(InvalidSettingError, match=said):
        Pool(workers, engine)


def test_one_worker_on_ray_means_all_its_cores():
    assert Pool(1, "ray").cores is None and Pool(2, "ray").cores == 2
