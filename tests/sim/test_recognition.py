"""Who is who between what was found and what is there, on images small enough to count."""

import numpy as np

from cpor.scene import BlockedBy, TrueRelations
from cpor.sim.dataset.recognition import Recognition


def image(text):
    return np.array([[int(c) for c in row] for row in text.split()], np.int32)


TRUE = image("1111 1122 3322 3300")


def test_most_pixels_decide_and_background_is_nobody():
    found = image("1111 1123 4422 4450")
    known = Recognition.match((1, 2, 3, 4, 5), found, {1, 2, 3}, TRUE)
    assert known.owner == {1: 1, 2: 2, 3: 2, 4: 3, 5: None}
    assert known.find(2) == 2 and known.pieces(2) == (2, 3)
    assert not known.unseen


def test_what_nobody_found_keeps_an_id_of_its_own():
    found = image("7777 7777 7700 7700")
    known = Recognition.match((7, 9), found, {1, 2, 3, 4}, TRUE)
    assert known.owner == {7: 1, 9: None}
    assert known.unseen == {2: 10, 3: 11, 4: 12}
    assert known.find(1) == 7 and known.find(3) == 11


def test_truth_is_translated_piece_by_piece_and_never_forgotten():
    found = image("1111 1123 0022 0000")
    known = Recognition.match((1, 2, 3), found, {1, 2, 3}, TRUE)
    truth = TrueRelations(
        frozenset({1, 2, 3}), frozenset({BlockedBy(1, 2), BlockedBy(2, 3), BlockedBy(3, 1)})
    )
    told = known.translate(truth)
    assert told.pairs == {(1, 2), (1, 3), (2, 4), (3, 4), (4, 1)}
    assert told.objects == {1, 2, 3, 4}


def test_nothing_found_at_all():
    known = Recognition.match((), np.zeros_like(TRUE), {1, 2, 3}, TRUE)
    assert known.unseen == {1: 1, 2: 2, 3: 3}
    assert known.find(2) == 2
