"""A run gives the same bytes however it is run, and whatever happens to it on the way.

The processes that are killed work with `answer_slowly`, whose workers die where they are told to. Run as a
script, this file is a run on a Ray cluster.
"""

import importlib.util
import itertools
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from cpor.errors import CporError, InputFileError, InvalidSettingError
from cpor.io.pool import Pool
from cpor.paper.runs.answer_items import answer_shard
from cpor.paper.runs.dataset import read_dataset
from cpor.paper.runs.folder import open_run_folder, read_run_folder
from cpor.paper.runs.questions import RunSettings
from cpor.paper.runs.run import RunPlan, run


def quiet(what, done, total):
    """Nobody wants to know."""


def write_scenes(path, n, seed=7):
    """A file of `n` random scenes with truth; labels are of all kinds, some answers are missing."""
    rng = np.random.default_rng(seed)
    lines = []
    for k in range(n):
        size = int(rng.integers(2, 7))
        labels = [f"<b>{i}</b>" if i % 3 == 0 else i for i in range(size)]
        pairs = [(i, j) for i in range(size) for j in range(size) if i != j and rng.random() < 0.35]
        relations = [
            {
                "blocked": labels[i],
                "blocker": labels[j],
                "p": None if rng.random() < 0.05 else round(float(rng.uniform(0.05, 0.95)), 3),
            }
            for i, j in pairs
        ]
        truth = [
            {"blocked": labels[i], "blocker": labels[j]} for i, j in pairs if i < j and rng.random() < 0.5
        ]
        scene = {"objects": labels, "target": labels[0], "relations": relations}
        lines.append(json.dumps(scene | {"id": f"scene {k}", "image": k // 2, "truth": {"relations": truth}}))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    return write_scenes(tmp_path_factory.mktemp("data") / "scenes.jsonl", 40)


@pytest.fixture(scope="module")
def undisturbed(scenes, tmp_path_factory):
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    run(RunPlan(read_dataset(scenes, quiet)), out)
    return contents(out)


def contents(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def records(folder):
    return read_run_folder(folder)[1]


@pytest.mark.parametrize("shard_size", [1, 7, 100])
def test_the_size_of_shards_changes_no_byte(scenes, undisturbed, tmp_path, shard_size):
    run(RunPlan(read_dataset(scenes, quiet)), tmp_path / "run", shard_size=shard_size)
    assert contents(tmp_path / "run") == undisturbed


def test_a_half_written_or_damaged_shard_is_done_again(scenes, undisturbed, tmp_path):
    plan = RunPlan(read_dataset(scenes, quiet))
    shards = plan.shards(4)
    with open_run_folder(tmp_path / "run", plan.header()) as folder:
        for shard in shards[:5]:
            folder.keep(shard, answer_shard(shard))
    pieces = sorted((tmp_path / "run" / "cases").iterdir())
    pieces[1].write_bytes(pieces[1].read_bytes()[:-20])
    pieces[2].write_bytes(b"".join(pieces[2].read_bytes().splitlines(keepends=True)[:-1]))
    (tmp_path / "run" / "cases" / ".00000020-00000024.jsonl.tmp").write_bytes(b'{"item"')
    (tmp_path / "run" / ".run.json.tmp").write_bytes(b"{")
    answered = []

    def answer(shard):
        answered.append(shard.first)
        return answer_shard(shard)

    run(plan, tmp_path / "run", shard_size=4, answer=answer)
    assert answered == [4, 8, 20, 24, 28, 32, 36]
    assert contents(tmp_path / "run") == undisturbed
    run(plan, tmp_path / "run", answer=answer)  # finished: nothing is left to do
    assert len(answered) == 7


def test_every_case_of_a_scene_is_kept_as_soon_as_it_is_decided(tmp_path, rng):
    """Cases a killed worker wrote down are taken as they are; one cut off while written is decided again."""
    from support.labelled import draw_labelled_scene

    from cpor.io.scene_folder import write_scene_folder

    for k in range(2):
        write_scene_folder(draw_labelled_scene(rng), tmp_path / "scenes" / f"scene{k}")
    plan = RunPlan(read_dataset(tmp_path / "scenes", quiet), RunSettings(all_targets=True))
    run(plan, tmp_path / "undisturbed")
    lines = (tmp_path / "undisturbed" / "cases.jsonl").read_bytes().splitlines(keepends=True)
    assert len(lines) > 5
    (shard,) = plan.shards(16)
    with open_run_folder(tmp_path / "run", plan.header()) as folder:
        begun = folder.begun(shard)
        marked = [line.replace(b'"image":"scene', b'"image":"kept ', 1) for line in lines[:2]]
        begun.write_bytes(b"".join(marked) + lines[2][:30])
    seen = []

    def answer(shard):
        found = answer_shard(shard)
        seen.append(begun.read_bytes())
        return found

    run(plan, tmp_path / "run", answer=answer)
    assert marked[0] != lines[0] and seen == [b"".join([*marked, *lines[2:]])]
    found = (tmp_path / "run" / "cases.jsonl").read_bytes().splitlines(keepends=True)
    assert found == [*marked, *lines[2:]]
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["cases.jsonl", "run.json"]


def test_another_run_is_refused(scenes, tmp_path):
    out = tmp_path / "run"
    dataset = read_dataset(scenes, quiet)
    run(RunPlan(dataset), out)
    with pytest.raises(InputFileError, match=r"other settings: tau is None, now 0\.9"):
        run(RunPlan(dataset, settings=RunSettings(tau=0.9)), out)
    other = read_dataset(write_scenes(tmp_path / "other.jsonl", 40, seed=8), quiet)
    with pytest.raises(InputFileError, match="other dataset: fingerprint"):
        run(RunPlan(other), out)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    with pytest.raises(InputFileError, match=r"thesis\.tex"):
        run(RunPlan(dataset), tmp_path / "mine")
    with (
        open_run_folder(tmp_path / "busy", RunPlan(dataset).header()),
        pytest.raises(InputFileError, match="another process"),
    ):
        run(RunPlan(dataset), tmp_path / "busy")
    with pytest.raises(InvalidSettingError, match="scene folders"):
        RunPlan(dataset, RunSettings(all_targets=True))


# From here on: runs that are disturbed, in a process of their own.


def start(*arguments):
    """A process that runs, and what it says of its progress; a server that has imported all forks it."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    hears, says = context.Pipe(duplex=False)
    process = context.Process(target=main, args=(*arguments, says))
    process.start()
    says.close()
    return process, hears


def is_alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.slow
def test_killed_at_ten_random_moments_and_resumed(tmp_path, evidence):
    rng = np.random.default_rng(11)
    scenes = write_scenes(tmp_path / "scenes.jsonl", 100)  # more than ten lives are allowed to answer
    run(RunPlan(read_dataset(scenes, quiet)), tmp_path / "undisturbed")
    out, seen = tmp_path / "run", []
    for life in range(10):
        process, hears = start(scenes, out, 2 if life == 3 else 1, "slow", tmp_path)
        for _ in range(int(rng.integers(1, 5))):
            assert hears.recv()[0] == "deciding"
        time.sleep(rng.uniform(0.0, 0.06))
        process.kill()
        process.join()
        hears.close()
        assert not (out / "cases.jsonl").exists(), "the run was over before it was killed"
        seen.append(len(list((out / "cases").glob("*.jsonl"))) if (out / "cases").exists() else 0)
    assert seen == sorted(seen) and seen[-1] > 5  # what was finished stayed
    run(RunPlan(read_dataset(scenes, quiet)), out, shard_size=1)
    assert contents(out) == contents(tmp_path / "undisturbed")
    evidence("serves", "run killed at ten random moments, resumed", "same bytes", "same bytes")
    workers = [int(path.name) for path in tmp_path.glob("[0-9]*")]
    deadline = time.monotonic() + 120.0
    while any(map(is_alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert workers and not any(map(is_alive, workers)), "workers outlived their killed parent"


@pytest.mark.slow
def test_a_worker_that_dies_costs_nothing_and_one_that_always_dies_ends_the_run(
    scenes, undisturbed, tmp_path
):
    plan, out = RunPlan(read_dataset(scenes, quiet)), tmp_path / "run"
    answer = partial(answer_slowly, "die", tmp_path)
    with pytest.raises(CporError, match="died 3 times at items 30 to 30"):
        run(plan, out, Pool(2), shard_size=1, answer=answer)
    assert (tmp_path / "died").exists()
    kept = {path.name for path in (out / "cases").iterdir()}
    assert len(kept) > 20 and any(name.startswith("00000020-") for name in kept)
    run(plan, out, shard_size=1)
    assert contents(out) == undisturbed


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="needs Ray: pip install 'cpor-grasp[ray]'"
)
def test_a_ray_cluster_that_loses_a_worker_and_a_node(scenes, undisturbed, tmp_path, evidence):
    arguments = map(str, (scenes, tmp_path / "run", tmp_path))
    ran = subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    nodes = {path.read_text() for path in tmp_path.glob("[0-9]*")}
    assert len(nodes) == 2, "both nodes should have worked"
    assert (tmp_path / "died").exists()
    assert "node killed" in ran.stdout
    assert contents(tmp_path / "run") == undisturbed
    evidence("serves", "two-node Ray cluster, a worker and a node killed", "same bytes", "same bytes")


def test_ray_is_asked_for_by_name(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InvalidSettingError, match=r"cpor-grasp\[ray\]"):
        next(Pool(engine="ray").do_all(answer_shard, []))


ANSWERED = itertools.count(1)  # by this process


def wait_for_both_nodes(folder):
    """So that neither node is done with all the work before the other begins."""
    until = time.monotonic() + 300.0
    while len({path.read_text() for path in folder.glob("[0-9]*")} - {""}) < 2:
        assert time.monotonic() < until, "one node does not work"
        time.sleep(0.05)


def answer_slowly(mode, folder, shard):
    """Answer a shard of one item; leave a trace of this worker, and die where the mode says so."""
    trace = folder / str(os.getpid())
    node = ""
    if mode == "ray":
        import ray

        node = ray.get_runtime_context().get_node_id()
    trace.write_text(node)
    if mode == "ray":
        wait_for_both_nodes(folder)
    time.sleep({"ray": 0.1, "slow": 0.05}.get(mode, 0.0))
    if mode == "slow" and next(ANSWERED) > 6:
        time.sleep(600.0)  # whoever kills it may be late: it must not be over by then
    once = shard.first == 20 and mode in ("die", "ray") and not (folder / "died").exists()
    if once or (shard.first == 30 and mode == "die"):
        (folder / "died").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return answer_shard(shard)


def main(dataset, out, workers, mode, folder, says):
    """A run that says how far it is."""
    tell = lambda *progress: says.send(progress)  # noqa: E731
    answer = partial(answer_slowly, mode, folder)
    run(RunPlan(read_dataset(dataset, quiet)), out, Pool(workers), tell, shard_size=1, answer=answer)


def main_on_ray(dataset, out, folder):
    """A run on two nodes, of which one is killed."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    nodes = [cluster.add_node(num_cpus=1)]
    os.environ["RAY_ADDRESS"] = cluster.address

    def tell(what, done, total):
        if done == 30 and nodes:
            cluster.remove_node(nodes.pop(), allow_graceful=False)
            print("node killed", flush=True)

    answer = partial(answer_slowly, "ray", folder)
    try:
        run(RunPlan(read_dataset(dataset, quiet)), out, Pool(engine="ray"), tell, shard_size=1, answer=answer)
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main_on_ray(*map(Path, sys.argv[1:]))
