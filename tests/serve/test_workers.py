import asyncio
import multiprocessing
import multiprocessing.connection
import os
import signal
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from serve import worker_jobs as jobs
from support.own_loop import run_apart

from cpor.errors import InvalidSceneError
from cpor.serve.http.refusals import Busy, Failed, TooSlow
from cpor.serve.http.request_limits import begin_request
from cpor.serve.jobs.workers import WorkerPool


@asynccontextmanager
async def pool(workers=1, most_waiting=4, time_limit_s=120.0, prepare=jobs.prepare):
    made = WorkerPool("test", workers, most_waiting, time_limit_s, prepare)
    try:
        await made.start()
        yield made
    finally:
        made.close()


async def come_back(workers):
    """As a client does who is told to: where the machine is slow, a worker takes a while to start."""
    while True:
        try:
            return await workers.run(jobs.pid)
        except (Busy, TooSlow):
            continue


async def comes_true(condition):
    until = time.monotonic() + 120.0
    while not condition():
        assert time.monotonic() < until
        await asyncio.sleep(0.01)


def test_jobs_run_elsewhere_with_tools_that_last():
    async def go():
        async with pool() as workers:
            return [await workers.run(jobs.add, k, b=1) for k in range(3)]

    assert run_apart(go()) == [(1, 1), (2, 2), (3, 3)]


def test_answers_go_to_those_who_asked():
    async def go():
        async with pool(workers=2, most_waiting=50) as workers:
            return await asyncio.gather(*(workers.run(jobs.add, k, 100) for k in range(40)))

    assert [total for total, _ in run_apart(go())] == [k + 100 for k in range(40)]


def test_an_error_of_ours_comes_back_and_the_worker_lives_on():
    async def go():
        async with pool() as workers:
            before = await workers.run(jobs.pid)
            with pytest.raises(InvalidSceneError, match="no such scene"):
                await workers.run(jobs.refuse)
            assert await workers.run(jobs.pid) == before

    run_apart(go())


def test_a_job_that_takes_too_long_is_ended():
    async def go():
        async with pool(time_limit_s=3.0) as workers:
            before = await come_back(workers)
            with pytest.raises(TooSlow):
                await workers.run(jobs.sleep, 600.0)
            assert await asyncio.wait_for(come_back(workers), 120.0) != before

    run_apart(go())


def test_a_worker_that_dies_is_replaced():
    async def go():
        async with pool() as workers:
            with pytest.raises(Failed, match="log says more"):
                await workers.run(jobs.die)
            assert (await workers.run(jobs.add, 1, 2))[0] == 3

    run_apart(go())


def kill(pid):
    """Kill a worker and wait until it is gone."""
    (worker,) = [each for each in multiprocessing.active_children() if each.pid == pid]
    worker.kill()
    multiprocessing.connection.wait([worker.sentinel])


def pids_of(workers):
    """Of two, who work at the same time."""
    return asyncio.gather(*(workers.run(jobs.sleep, 0.2) for _ in range(2)))


def test_the_death_of_an_idle_worker_costs_nobody_an_answer():
    async def go():
        async with pool() as workers:
            for _ in range(3):
                before = await workers.run(jobs.pid)
                kill(before)  # the loop does not run meanwhile, so nobody has replaced it yet
                assert await workers.run(jobs.pid) != before

    run_apart(go())


def test_a_worker_that_dies_when_a_job_is_handed_over_is_replaced_and_the_job_done():
    async def go():
        async with pool() as workers:
            before = await workers.run(jobs.pid)
            os.kill(before, signal.SIGSTOP)  # takes the job, and does not begin
            asked = asyncio.create_task(workers.run(jobs.pid))
            await asyncio.sleep(0.2)
            os.kill(before, signal.SIGKILL)
            assert await asked != before

    run_apart(go())


def test_dead_idle_workers_are_replaced_before_they_are_needed():
    async def go():
        async with pool(workers=2) as workers:
            pids = set(await pids_of(workers))
            assert len(pids) == workers.able == 2
            for pid in pids:
                kill(pid)
            assert workers.able == 0
            await comes_true(lambda: workers.able == 2)
            assert not pids & set(await pids_of(workers))

    run_apart(go())


def test_a_worker_at_work_counts_as_able(tmp_path):
    async def go():
        async with pool() as workers:
            asked = asyncio.create_task(workers.run(jobs.wait_for, str(tmp_path / "go")))
            await asyncio.sleep(0.1)
            assert workers.able == 1
            (tmp_path / "go").touch()
            await asked

    run_apart(go())


def test_one_more_than_may_wait_is_told_to_come_back(tmp_path):
    async def go():
        async with pool(most_waiting=2) as workers:
            go_on = str(tmp_path / "go")
            tasks = [asyncio.create_task(workers.run(jobs.wait_for, go_on)) for _ in range(3)]
            await comes_true(lambda: workers.waiting == 2)
            with pytest.raises(Busy):
                await workers.run(jobs.add, 1, 1)
            (tmp_path / "go").touch()
            await asyncio.gather(*tasks)
            assert workers.waiting == 0
            assert (await workers.run(jobs.add, 1, 1))[0] == 2

    run_apart(go())


def test_a_caller_who_goes_away_does_not_lose_the_worker(tmp_path):
    async def go():
        async with pool() as workers:
            task = asyncio.create_task(workers.run(jobs.wait_for, str(tmp_path / "go")))
            await asyncio.sleep(0.1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            (tmp_path / "go").touch()
            return await asyncio.gather(*(workers.run(jobs.add, k, 0) for k in range(3)))

    assert [total for total, _ in run_apart(go())] == [0, 1, 2]


def test_who_has_gone_is_not_served(tmp_path):
    gone = []

    async def has_gone():
        return bool(gone)

    async def go():
        async with pool() as workers:
            first = asyncio.create_task(workers.run(jobs.wait_for, str(tmp_path / "go")))
            await asyncio.sleep(0.1)
            second = asyncio.create_task(workers.run_unless(has_gone, jobs.sleep, 600.0))
            gone.append(True)
            (tmp_path / "go").touch()
            await first
            with pytest.raises(Busy, match="the caller has gone"):
                await second
            assert (await workers.run(jobs.add, 1, 1))[0] == 2

    run_apart(go())


def test_a_worker_that_starts_slower_than_the_limit_comes_back():
    async def go():
        async with pool(time_limit_s=2.0, prepare=jobs.prepare_slowly) as workers:
            with pytest.raises((Failed, TooSlow)):  # a loaded machine may not come to it in time
                await workers.run(jobs.die)
            assert await asyncio.wait_for(come_back(workers), 120.0)
            assert workers.able == 1

    run_apart(go())


def test_a_request_has_one_limit_and_its_worker_is_not_ended_for_having_waited():
    async def late(workers):
        begin_request(0.3)  # as if it had arrived slowly
        with pytest.raises(Busy, match="before its turn came"):
            await workers.run(jobs.sleep, 1.0)

    async def later(workers):
        begin_request(0.1)
        with pytest.raises(Busy, match="before its turn came"):
            await workers.run(jobs.add, 1, 1)

    async def go():
        async with pool() as workers:
            before = await workers.run(jobs.pid)
            first = asyncio.create_task(late(workers))
            await asyncio.sleep(0.05)
            await asyncio.create_task(later(workers))
            await first
            assert await workers.run(jobs.pid) == before

    run_apart(go())


SERVICE = """
import asyncio, sys
from serve import worker_jobs as jobs
from cpor.serve.jobs.workers import WorkerPool

async def go(job):
    pool = WorkerPool("test", 1, 1, 0.5, jobs.prepare)
    await pool.start()
    print(await pool.run(jobs.pid), flush=True)
    await pool.run(getattr(jobs, job), 600)

if __name__ == "__main__":
    asyncio.run(go(sys.argv[1]))
"""


@pytest.mark.parametrize("job", ["sleep", "hold_all_threads"])
def test_no_worker_outlives_a_service_that_is_killed(tmp_path, job):
    (tmp_path / "service.py").write_text(SERVICE)
    paths = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, str(tmp_path / "service.py"), job]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": paths}) as service:
        pid = int(service.stdout.readline())  # none where the service did not start
        time.sleep(0.2)  # the job begins
        service.send_signal(signal.SIGKILL)
    worker = Path("/proc", str(pid))
    until = time.monotonic() + 120.0
    while worker.exists():
        assert time.monotonic() < until
        time.sleep(0.05)
