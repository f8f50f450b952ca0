"""Data sets of simulated scenes: the same bytes however they are made, and read back as they were planned."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cpor.errors import InputFileError, InvalidSettingError
from cpor.io.scene_folder import read_scenes
from cpor.sim.dataset.make import SPLIT_SIZES, plan_dataset, plan_split, simulate_case, write_dataset
from cpor.sim.dataset.manifest import DatasetSettings, read_manifest, read_split
from cpor.sim.physics.true_relations import tier_of

SMALL = DatasetSettings(width=160, height=120)
N = 3


def content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "set"
    write_dataset(plan_dataset(N, 5, settings=SMALL), folder)
    return folder


def test_two_processes_make_the_same_bytes_as_one(made, tmp_path, evidence):
    write_dataset(plan_dataset(N, 5, settings=SMALL), tmp_path / "set", workers=2)
    assert content(tmp_path / "set") == content(made)
    evidence("acts", "data set made by one and by two processes", "same bytes", "same bytes")


def test_a_run_that_was_killed_goes_on_to_the_same_bytes(made, tmp_path):
    out = tmp_path / "set"
    code = (
        "from pathlib import Path; from cpor.sim.dataset.make import *\n"
        f"write_dataset(plan_dataset({N}, 5, settings=DatasetSettings(width=160, height=120)),"
        f" Path({str(out)!r}))"
    )
    process = subprocess.Popen([sys.executable, "-c", code])
    while not (out / ".making" / "scene_00000.json").exists():
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (out / "manifest.json").exists()
    with pytest.raises(InputFileError, match="not finished"):
        list(read_split(out))
    first = (out / "scene_00000" / "rgb.png").stat().st_mtime_ns
    write_dataset(plan_dataset(N, 5, settings=SMALL), out)
    assert content(out) == content(made)
    assert (out / "scene_00000" / "rgb.png").stat().st_mtime_ns == first, "it was made again"


def test_a_scene_that_got_lost_is_made_again(made, tmp_path):
    out = tmp_path / "set"
    shutil.copytree(made, out)
    shutil.rmtree(out / "scene_00001")
    write_dataset(plan_dataset(N, 5, settings=SMALL), out)
    assert content(out) == content(made)


def test_a_larger_set_begins_with_the_smaller_one():
    small, large = plan_dataset(N, 5, settings=SMALL).cases, plan_dataset(40, 5, settings=SMALL).cases
    assert large[:N] == small
    assert {case.seed for case in large}.isdisjoint(case.seed for case in plan_dataset(40, 6).cases)


def test_cases_read_back_are_what_was_asked_for(made):
    cases = list(read_split(made))
    assert [case.tier for case in cases] == ["easy", "medium", "hard"]
    for case in cases:
        names = {o.id: o.name for o in case.scene.objects}
        assert case.scene.request == f"the {names[case.target]}"
        assert len(set(names.values())) == len(names)
        assert (case.scene.visible_ids == case.target).any()
        assert tier_of(case.target, case.scene.true_occlusion) == case.tier
        assert case.scene.true_sweep is not None and case.scene.true_lift is None
        assert case.scene.observation.camera.intrinsics is not None


def test_the_manifest_counts_what_the_folders_hold(made):
    manifest = read_manifest(made)
    assert manifest.n_cases == {"easy": 1, "medium": 1, "hard": 1}
    for entry, case in zip(manifest.cases, read_split(made), strict=True):
        assert entry.n_objects == len(case.scene.ids)
        assert entry.n_relations == {
            "relations.json": len(case.scene.true_occlusion.pairs),
            "relations_sweep.json": len(case.scene.true_sweep.pairs),
        }


def test_the_audit_of_lifts_is_made_when_asked_for():
    audited = SMALL.model_copy(update={"lift": True, "density": "loose"})
    scene, entry = simulate_case(plan_dataset(1, 5, settings=audited).cases[0], audited)
    assert scene.true_lift is not None
    assert entry.n_relations["relations_lift.json"] == len(scene.true_lift.pairs)


def test_a_scene_from_the_middle_of_a_run_lacks_the_blockers_that_were_removed(made):
    late = SMALL.model_copy(update={"removed": 2})
    scene, entry = simulate_case(plan_dataset(N, 5, settings=SMALL).cases[2], late)
    first = read_manifest(made).cases[2]
    assert 1 <= first.n_objects - entry.n_objects <= 2
    assert entry.request == first.request and entry.target in scene.ids
    # A first look is written as before there were others.
    assert "removed" not in SMALL.model_dump() and late.model_dump()["removed"] == 2


def test_the_commands_that_read_scenes_read_a_data_set(made):
    names = [name for name, _ in read_scenes(made, lambda what, done, total: None)]
    assert names == ["scene_00000", "scene_00001", "scene_00002"]


def test_the_standard_split_has_its_sizes_and_no_scene_twice(evidence):
    dev, test = plan_split("dev").cases, plan_split("test").cases
    assert (len(dev), len(test)) == (SPLIT_SIZES["dev"], SPLIT_SIZES["test"]) == (550, 1800)
    assert [sum(case.tier == tier for case in test) for tier in ("easy", "medium", "hard")] == [600] * 3
    seeds = [case.seed for case in (*dev, *test, *plan_dataset(5000, 0).cases)]
    assert len(set(seeds)) == len(seeds)
    evidence(
        "acts", "cases of dev and test", "550 and 1,800 (600 a tier), disjoint", "550 and 1,800, disjoint"
    )


@pytest.mark.parametrize(
    ("other", "said"),
    [(plan_dataset(N, 6, settings=SMALL), "other split"), (plan_dataset(N, 5), "other settings")],
)
def test_another_data_set_is_not_written_over(made, other, said):
    before = content(made)
    with pytest.raises(InputFileError, match=said):
        write_dataset(other, made)
    assert content(made) == before


def test_a_smaller_set_does_not_leave_strangers_behind(made):
    with pytest.raises(InputFileError, match=r"beyond the 2.*larger --scenes"):
        write_dataset(plan_dataset(2, 5, settings=SMALL), made)


def test_a_folder_of_other_things_is_left_alone(tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(InputFileError, match=r"letter\.txt"):
        write_dataset(plan_dataset(1, 0, settings=SMALL), tmp_path)


def test_what_is_no_data_set_is_said_to_be_none(tmp_path):
    with pytest.raises(InputFileError, match=r"no manifest\.json"):
        list(read_split(tmp_path))
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(InputFileError, match="split"):
        list(read_split(tmp_path))


@pytest.mark.parametrize("n_scenes", [0, 10**9])
def test_no_scenes_and_absurdly_many_are_refused(n_scenes):
    with pytest.raises(InvalidSettingError, match="at least 1 and at most 1,000,000"):
        plan_dataset(n_scenes, 0)


def test_a_damaged_plan_says_what_to_delete(tmp_path):
    out = tmp_path / "set"
    (out / ".making").mkdir(parents=True)
    (out / ".making" / "plan.json").write_text('{"split": "seed')
    with pytest.raises(InputFileError, match=f"plan.json is damaged.*delete {out}"):
        write_dataset(plan_dataset(1, 0, settings=SMALL), out)


def test_no_workers_leave_nothing_behind(tmp_path):
    with pytest.raises(InvalidSettingError, match="at least 1"):
        write_dataset(plan_dataset(1, 0, settings=SMALL), tmp_path / "set", workers=0)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_named_with_a_remedy(tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    plan = plan_dataset(1, 0, settings=SMALL)
    with pytest.raises(InputFileError, match=r"letter\.txt is a file.*choose another --out"):
        write_dataset(plan, tmp_path / "letter.txt")
    with pytest.raises(InputFileError, match=r"cannot create the folder .*set.*choose another --out"):
        write_dataset(plan, tmp_path / "letter.txt" / "set")


def test_the_manifest_goes_only_when_all_it_says_is_kept_elsewhere(made, tmp_path):
    out = tmp_path / "set"
    shutil.copytree(made, out)
    seen = []

    def look(what, done, total):
        kept = {path.stem for path in (out / ".making").glob("scene_*.json")}
        seen.append(((out / "manifest.json").exists(), kept))

    write_dataset(plan_dataset(N, 5, settings=SMALL), out, progress=look)
    assert seen == [(True, {"scene_00000", "scene_00001", "scene_00002"})], "nothing to do: it stays"
    seen.clear()
    write_dataset(plan_dataset(N + 1, 5, settings=SMALL), out, progress=look)
    assert seen[0] == (False, {"scene_00000", "scene_00001", "scene_00002"})
    assert len(read_manifest(out).cases) == N + 1


def test_the_shipped_scenes_are_small_whole_and_of_every_tier():
    folder = Path(__file__).parents[2] / "examples" / "scenes" / "sim"
    cases = list(read_split(folder))
    assert [sum(case.tier == tier for case in cases) for tier in ("easy", "medium", "hard")] == [4, 4, 4]
    assert sum(len(data) for data in content(folder).values()) < 1_500_000
    for case in cases:
        assert tier_of(case.target, case.scene.true_occlusion) == case.tier
