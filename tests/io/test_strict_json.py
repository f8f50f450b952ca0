import pytest

from cpor.errors import SceneFileError
from cpor.io.whole_files import parse_strict


def test_plain_json_is_read():
    assert parse_strict('{"a": [1, null, {"b": 0.5}]}') == {"a": [1, None, {"b": 0.5}]}
    assert parse_strict(b'"\xc3\xa9"') == "é"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a": 1, "b": 2, "a": 1}', '"a" is given twice in one object'),
        ('[{"x": {"b": 1, "b": 2}}]', '"b" is given twice'),
        ('{"p": NaN}', "NaN is not a JSON number"),
        ("[-Infinity]", "-Infinity is not a JSON number"),
        ("[" * 200_000, "nested too deeply"),
        ("{", "it is not JSON"),
        ("", "it is not JSON"),
        (b"\xff\xfe\xfd", "it is not"),
        (b'"\xe9"', "not UTF-8"),
    ],
)
def test_what_means_two_things_or_none_is_refused(text, said):
    with pytest.raises(SceneFileError, match=said):
        parse_strict(text)


def test_keys_can_be_limited():
    assert parse_strict('{"a": 1, "b": 2}', most_keys=2)
    with pytest.raises(SceneFileError, match="more than 1 keys"):
        parse_strict('{"a": 1, "b": 2}', most_keys=1)
