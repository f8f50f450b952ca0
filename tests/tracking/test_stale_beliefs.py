"""What changes behind the camera's back."""

import pytest
from support.stale_beliefs import INJECTIONS, inject


@pytest.mark.parametrize("kind", INJECTIONS)
def test_nothing_is_free_by_an_old_look(kind):
    cases = [inject(kind, seed) for seed in range(100, 103)]
    assert all(each.obstructed and not each.acts_free for each in cases)


def test_where_nothing_changed_it_is_grasped():
    assert inject("nothing", 100).acts_free
