"""A folder made piece by piece: one writer, one claim, whole pieces, a result at the end."""

import json
import sys

import pytest

from cpor.errors import InputFileError
from cpor.io.whole_files import open_resumable

CLAIM = {"settings": {"tau": 0.5, "seed": 1}, "version": 1}


def opened(path):
    return open_resumable(path, "claim.json", "pieces")


def test_what_was_kept_is_there_after_a_kill(tmp_path):
    path = tmp_path / "a" / "b"
    with opened(path) as folder:
        folder.claim(CLAIM)
        folder.keep("one", b"1")
    (path / "pieces" / ".two.77.tmp").write_bytes(b"ha")  # what a kill leaves
    (path / ".scene-x").mkdir()
    with opened(path) as folder:
        folder.claim(CLAIM)
        assert folder.kept("one") == b"1" and folder.kept("two") is None
        folder.keep("two", b"2")
        folder.finish("result", b"12")
    assert sorted(each.name for each in path.iterdir()) == ["claim.json", "result"]
    assert (path / "result").read_bytes() == b"12"


def test_pieces_can_stay(tmp_path):
    with opened(tmp_path) as folder:
        folder.claim(CLAIM)
        folder.keep("one", b"1")
        folder.finish("result", b"1", keep_pieces=True)
        assert folder.kept("one") == b"1"


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"settings": {"tau": 0.9, "seed": 1}, "version": 1}, r"other settings: tau is 0\.5, now 0\.9"),
        ({"settings": {"tau": 0.5, "seed": 1, "way": "x"}, "version": 1}, "way is None, now x"),
        ({"settings": {"tau": 0.5, "seed": 1}, "version": 2}, "other version: 1, now 2"),
    ],
)
def test_another_claim_is_refused_and_named(tmp_path, other, said):
    with opened(tmp_path) as folder:
        folder.claim(CLAIM)
    with opened(tmp_path) as folder, pytest.raises(InputFileError, match=f"{said}.*choose another --out"):
        folder.claim(other)
    assert json.loads((tmp_path / "claim.json").read_text()) == CLAIM


def test_other_files_and_damaged_claims_are_left_alone(tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    with opened(tmp_path) as folder, pytest.raises(InputFileError, match=r"other files \(letter\.txt\)"):
        folder.claim(CLAIM)
    (tmp_path / "claim.json").write_text("{")
    with opened(tmp_path) as folder, pytest.raises(InputFileError, match=f"is damaged.*delete {tmp_path}"):
        folder.claim(CLAIM)
    with pytest.raises(InputFileError, match="is a file"), opened(tmp_path / "letter.txt"):
        pass


@pytest.mark.skipif(sys.platform == "win32", reason="no file locks there")
def test_one_writes_at_a_time(tmp_path):
    with opened(tmp_path), pytest.raises(InputFileError, match="another process"), opened(tmp_path):
        pass
