"""Fitted parts on disk: what cannot be read is a plain error that says why."""

import json

import pytest

from cpor.errors import InputFileError
from cpor.learn.logistic import LogisticCalibrator


@pytest.fixture
def content():
    return json.loads(LogisticCalibrator(theta=(-0.35, -0.6)).to_json())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"kind": "logistik"}, "unknown kind 'logistik'; known kinds: logistic"),
        ({"kind": None}, "unknown kind None"),
        ({"kind": ["logistic"]}, "unknown kind"),
        ({"version": 2}, "version 2, written by a newer release; this one reads 1"),
        ({"version": "1"}, "versions are numbers"),
        ({"theta": ["steep", 0.0]}, "theta.0: Input should be a valid number"),
        ({"theta": [0.0]}, "theta, mean and scale must hold 2, 0 and 0 numbers"),
        ({"sees": "scene", "theta": [0.0] * 4, "mean": [1.0], "scale": [-1.0]}, "should be greater than 0"),
        ({"sees": "everything"}, "sees: Input should be 'score', 'scene' or 'graph'"),
        ({"b": 1.0}, "b: Extra inputs are not permitted"),
    ],
)
def test_refuses(content, change, says):
    with pytest.raises(InputFileError, match=says):
        LogisticCalibrator.from_json(json.dumps(content | change))


@pytest.mark.parametrize("text", ["", "{", "[1]", "null"])
def test_refuses_what_is_no_object(text):
    with pytest.raises(InputFileError):
        LogisticCalibrator.from_json(text)


def test_another_kind_is_not_read_as_this_one(content):
    with pytest.raises(InputFileError, match="unknown kind 'temperature'; known kinds: logistic"):
        LogisticCalibrator.from_json(json.dumps(content | {"kind": "temperature"}))


def test_files_are_written_whole(tmp_path):
    path = tmp_path / "model.json"
    LogisticCalibrator(theta=(0.1 + 0.2, 1 / 3)).save(path)
    LogisticCalibrator(theta=(0.7, 1 / 3)).save(path)
    assert LogisticCalibrator.load(path) == LogisticCalibrator(theta=(0.7, 1 / 3))
    assert [file.name for file in tmp_path.iterdir()] == ["model.json"]
    with pytest.raises(InputFileError, match="cannot read the model file"):
        LogisticCalibrator.load(tmp_path / "other.json")
