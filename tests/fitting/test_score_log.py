"""Score logs: read, or refused with file, line and remedy; the `calibrate` command on top."""

import json

import numpy as np
import pytest
from support.data import DATA

from cpor import CporError
from cpor.fitting.score_log import METHODS, calibrate_log, read_score_log

LOG = DATA / "unobench" / "calibration" / "train_adaptive.csv"
HEADER = "image,prob_edge,N_cand,label\n"


def write(tmp_path, text):
    path = tmp_path / "log.csv"
    path.write_text(text)
    return path


def test_a_log_is_read(tmp_path):
    log = read_score_log(write(tmp_path, "row," + HEADER + "x,a,0.25,3,1\ny,b,,2,0\n"))
    assert log.image.tolist() == ["a", "b"]
    assert log.score[0] == 0.25
    assert np.isnan(log.score[1])  # no answer
    assert log.label.tolist() == [True, False]


@pytest.mark.parametrize(
    ("text", "culprit"),
    [
        ("image,prob_edge,label\n", "no column 'N_cand'"),
        ("", "no column 'image'"),
        (HEADER, "no rows"),
        (HEADER + "a,1.5,2,1\n", "line 2: prob_edge is '1.5'"),
        (HEADER + "a,nan,2,1\n", "'nan'"),
        (HEADER + "a,0.5,0,1\n", "N_cand"),
        (HEADER + "a,0.5,2,yes\n", "label is 'yes'"),
        (HEADER + "a,0.5\n", "fewer cells"),
    ],
)
def test_bad_logs_are_refused(tmp_path, text, culprit):
    with pytest.raises(CporError, match=culprit):
        read_score_log(write(tmp_path, text))


def test_a_missing_log_is_named(tmp_path):
    with pytest.raises(CporError, match=r"nowhere\.csv"):
        read_score_log(tmp_path / "nowhere.csv")


@pytest.fixture
def log(tmp_path, rng):
    rows = []
    for k in range(400):
        label = rng.random() < 0.4
        score = 1 / (1 + np.exp(-(2.0 * (label - 0.5) + rng.standard_normal() + 1.0)))
        rows.append(f"{k // 4},{score:.6f},{1 + k % 7},{int(label)}\n")
    return read_score_log(write(tmp_path, HEADER + "".join(rows)))


@pytest.mark.parametrize("method", METHODS)
def test_every_method_lowers_the_loss(log, method):
    found = calibrate_log(log, method)
    assert found.after.nll < found.before.nll


def test_settings_that_make_no_sense(log):
    with pytest.raises(CporError, match="choose one of"):
        calibrate_log(log, "magic")
    with pytest.raises(CporError, match="no penalty"):
        calibrate_log(log, "isotonic", 1.0)


@pytest.mark.skipif(
    not LOG.exists(), reason=f"needs {LOG.name}: point CPOR_DATA at the folder that has unobench/"
)
def test_the_command_reproduces_the_published_fit(capsys, monkeypatch):
    import sys

    from cpor.cli.app import main

    arguments = ["cpor", "calibrate", str(LOG), "--method", "adaptive-platt", "--penalty", "1", "--json"]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 0
    printed = json.loads(capsys.readouterr().out)
    published = {
        "mu_phi": 1.57988,
        "sigma_phi": 0.44408,
        "alpha0": -0.30788,
        "alphaN": 0.05107,
        "c0": -0.61925,
        "cN": 0.04537,
        "objective": 0.568809,
    }
    assert printed["parameters"] == pytest.approx(published, abs=1e-4)
    assert printed["before"]["nll"] == pytest.approx(0.6741, abs=1e-4)
    assert printed["after"]["ece"] == pytest.approx(0.0286, abs=1e-4)
