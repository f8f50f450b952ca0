import asyncio
from contextlib import asynccontextmanager

import pytest
from support import worker_jobs as jobs

from cpor.errors import InvalidSceneError
from cpor.serve.refusals import Busy, Failed, TooSlow
from cpor.serve.workers import PoolSettings, WorkerPool


@asynccontextmanager
async def pool(workers=1, most_waiting=4, time_limit_s=20.0):
    made = WorkerPool(PoolSettings("test", workers, most_waiting, time_limit_s, jobs.prepare))
    try:
        await made.start()
        yield made
    finally:
        made.close()


def test_jobs_run_elsewhere_with_tools_that_last():
    async def go():
        async with pool() as workers:
            return [await workers.run(jobs.add, k, b=1) for k in range(3)]

    assert asyncio.run(go()) == [(1, 1), (2, 2), (3, 3)]


def test_answers_go_to_those_who_asked():
    async def go():
        async with pool(workers=2, most_waiting=50) as workers:
            return await asyncio.gather(*(workers.run(jobs.add, k, 100) for k in range(40)))

    assert [total for total, _ in asyncio.run(go())] == [k + 100 for k in range(40)]


def test_an_error_of_ours_comes_back_and_the_worker_lives_on():
    async def go():
        async with pool() as workers:
            before = await workers.run(jobs.pid)
            with pytest.raises(InvalidSceneError, match="no such scene"):
                await workers.run(jobs.refuse)
            assert await workers.run(jobs.pid) == before

    asyncio.run(go())


def test_a_job_that_takes_too_long_is_ended():
    async def go():
        async with pool(time_limit_s=3.0) as workers:
            before = await workers.run(jobs.pid)
            with pytest.raises(TooSlow):
                await workers.run(jobs.sleep, 600.0)
            assert await workers.run(jobs.pid) != before

    asyncio.run(go())


def test_a_worker_that_dies_is_replaced():
    async def go():
        async with pool() as workers:
            with pytest.raises(Failed, match="log says more"):
                await workers.run(jobs.die)
            assert (await workers.run(jobs.add, 1, 2))[0] == 3

    asyncio.run(go())


def test_one_more_than_may_wait_is_told_to_come_back():
    async def go():
        async with pool(most_waiting=2) as workers:
            tasks = [asyncio.create_task(workers.run(jobs.sleep, 0.5)) for _ in range(3)]
            await asyncio.sleep(0.1)
            assert workers.waiting == 2
            with pytest.raises(Busy):
                await workers.run(jobs.add, 1, 1)
            await asyncio.gather(*tasks)
            assert workers.waiting == 0
            assert (await workers.run(jobs.add, 1, 1))[0] == 2

    asyncio.run(go())


def test_a_caller_who_goes_away_does_not_lose_the_worker():
    async def go():
        async with pool() as workers:
            task = asyncio.create_task(workers.run(jobs.sleep, 0.3))
            await asyncio.sleep(0.1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return await asyncio.gather(*(workers.run(jobs.add, k, 0) for k in range(3)))

    assert [total for total, _ in asyncio.run(go())] == [0, 1, 2]


def test_who_has_gone_is_not_served():
    gone = []

    async def has_gone():
        return bool(gone)

    async def go():
        async with pool() as workers:
            first = asyncio.create_task(workers.run(jobs.sleep, 0.3))
            await asyncio.sleep(0.1)
            second = asyncio.create_task(workers.run_unless(has_gone, jobs.sleep, 600.0))
            gone.append(True)
            await first
            with pytest.raises(Busy, match="nobody waits"):
                await second
            assert (await workers.run(jobs.add, 1, 1))[0] == 2

    asyncio.run(go())
