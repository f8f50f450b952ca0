"""Judged retrievals: which are tested, what is said before a run, and when it is withdrawn."""

import pytest

from cpor.errors import FittingError, InputFileError
from cpor.learn.retrievals import promise_retrievals
from cpor.model import FittedModel, bundled_model
from cpor.robot.judged_retrievals import Retrieval, keep_retrieval, read_retrievals, say_promise, set_up
from cpor.system import System


def runs(n_wrong, n):
    return [(k < n_wrong, "arm") for k in range(n)]


def test_thresholds_are_tested_from_the_highest_down_until_one_fails():
    found = promise_retrievals({0.7: runs(0, 40), 0.8: runs(9, 40), 0.9: runs(0, 22)}, 0.1, 0.1)
    assert found.tau == 0.9 and found.n_tested == 1 and found.n == 22  # 0.7 comes after the failure
    assert promise_retrievals({0.8: runs(0, 40), 0.9: runs(0, 22)}, 0.1, 0.1).tau == 0.8
    few = promise_retrievals({0.9: runs(0, 21)}, 0.1, 0.1)
    assert few.tau is None and "22 without any" in few.reason
    with pytest.raises(FittingError, match="no retrievals"):
        promise_retrievals({}, 0.1, 0.1)


def test_forty_five_are_enough_for_one_in_twenty():
    assert promise_retrievals({0.9: runs(0, 45)}, 0.05, 0.1).promised
    assert not promise_retrievals({0.9: runs(0, 44)}, 0.05, 0.1).promised


def test_each_set_up_has_to_pass():
    mixed = [*runs(0, 100), *((k < 4, "other arm") for k in range(20))]
    assert promise_retrievals({0.9: mixed}, 0.1, 0.1).tau is None
    assert promise_retrievals({0.9: [(wrong, "arm") for wrong, _ in mixed]}, 0.1, 0.1).promised


@pytest.fixture(scope="module")
def model():
    return FittedModel.load(bundled_model("geometry"))


def promising(model, monkeypatch, where=None, n=30):
    """A system whose model promises whole retrievals at its own threshold, as a sealed file of ours would."""
    system = System("depth", "none", model)
    _, tau, own = set_up("arm", system)
    promise = promise_retrievals({tau: [(False, where or own)] * n}, 0.1, 0.1)
    fitted = model.model_copy(update={"retrievals": promise})
    monkeypatch.setattr(FittedModel, "unproven", None)
    return System("depth", "none", fitted), own, fitted, tau


def test_without_a_promise_nothing_is_said(model):
    assert say_promise("arm", System("depth", "none", model), []) is None


def test_a_promise_is_said_for_the_set_up_that_was_tested(model, monkeypatch):
    system, _, fitted, tau = promising(model, monkeypatch)
    assert say_promise("arm", system, []).startswith("Promised: at most 1 in 10 retrievals")
    assert "tested with arm" in say_promise("another arm", system, [])
    bold = System("depth", "none", fitted, mode="bold")
    assert "No error rate" in say_promise("arm", bold, [])
    same_tau = System("depth", "none", fitted, tau=tau)
    assert "a set threshold" in say_promise("arm", same_tau, [])


def test_runs_that_go_wrong_too_often_withdraw_it(model, monkeypatch):
    system, own, fitted, tau = promising(model, monkeypatch)
    bad = Retrieval(run="r", where=own, model=fitted.tested_digest, tau=tau, wrong=True, ended="retrieved")
    assert "Promised" in say_promise("arm", system, [bad] * 3)
    assert "withdrawn, since 4 of 4" in say_promise("arm", system, [bad] * 4)
    unjudged, elsewhere = bad.model_copy(update={"wrong": None}), bad.model_copy(update={"where": "x"})
    assert "Promised" in say_promise("arm", system, [unjudged] * 9 + [elsewhere] * 9)


def test_a_file_alone_proves_nothing(model):
    system = System("depth", "none", model)
    _, tau, own = set_up("arm", system)
    promise = promise_retrievals({tau: [(False, own)] * 30}, 0.1, 0.1)
    claimed = System("depth", "none", model.model_copy(update={"retrievals": promise, "seal": None}))
    assert claimed.model.unproven is not None
    assert "No error rate" in say_promise("arm", claimed, [])


def test_the_promise_does_not_change_what_was_tested(model):
    promise = promise_retrievals({0.9: runs(0, 30)}, 0.1, 0.1)
    fitted = model.model_copy(update={"retrievals": promise})
    assert fitted.tested_digest == model.digest != fitted.digest


def test_lines_are_kept_and_a_torn_last_one_is_left_out(tmp_path):
    one = Retrieval(run="a", where="arm", model="m", tau=0.9, wrong=False, ended="retrieved")
    file = tmp_path / "retrievals.jsonl"
    keep_retrieval(file, one)
    file.write_text(file.read_text() + '{"run": "b"')
    assert read_retrievals([file]) == [one]
    file.write_text('{"run": "b"}\n')
    with pytest.raises(InputFileError, match="line 1"):
        read_retrievals([file])
