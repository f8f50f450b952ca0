"""Fitted parts on disk: what cannot be read is a plain error that says why."""

import json

import pytest

from cpor.calibration import ModelFileError, PlattCalibrator, calibrator_from_json, load_calibrator


@pytest.fixture
def content():
    return json.loads(PlattCalibrator(a=0.7, c=-0.6).to_json())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            {"kind": "plat"},
            "unknown kind 'plat'; known kinds: action, graph-platt, isotonic, platt, scene-platt",
        ),
        ({"kind": None}, "unknown kind None"),
        ({"kind": ["platt"]}, "unknown kind"),
        ({"version": 2}, "version 2, written by a newer release; this one reads 1"),
        ({"version": "1"}, "versions are numbers"),
        ({"a": "steep"}, "a: Input should be a valid number"),
        ({"a": -1.0}, "a: Input should be greater than 0"),
        ({"b": 1.0}, "b: Extra inputs are not permitted"),
    ],
)
def test_refuses(content, change, says):
    with pytest.raises(ModelFileError, match=says):
        calibrator_from_json(json.dumps(content | change))


@pytest.mark.parametrize("text", ["", "{", "[1]", "null"])
def test_refuses_what_is_no_object(text):
    with pytest.raises(ModelFileError):
        calibrator_from_json(text)


def test_another_kind_is_not_read_as_this_one(content):
    with pytest.raises(ModelFileError, match="unknown kind 'temperature'; known kinds: platt"):
        PlattCalibrator.from_json(json.dumps(content | {"kind": "temperature"}))


def test_files_are_written_whole(tmp_path):
    path = tmp_path / "model.json"
    PlattCalibrator(a=0.1 + 0.2, c=1 / 3).save(path)
    PlattCalibrator(a=0.7, c=1 / 3).save(path)
    assert load_calibrator(path) == PlattCalibrator(a=0.7, c=1 / 3)
    assert [file.name for file in tmp_path.iterdir()] == ["model.json"]
    with pytest.raises(ModelFileError, match="cannot read the model file"):
        load_calibrator(tmp_path / "other.json")
