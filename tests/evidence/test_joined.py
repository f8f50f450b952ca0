"""The network's geometry joined with the paper's: shares, bounds, and pieces of one object."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from support.layered import draw_layered_scene

from cpor.evidence import PairState, geometric_evidence
from cpor.evidence.learnt import LEAST_BEHIND, join_geometry


@pytest.fixture
def paper(rng):
    """Four objects of which the first three touch each other, with no overlap; the formula says 2 of all."""
    plain = geometric_evidence(draw_layered_scene(rng, (120, 160), 4, strength=0.0))
    state = np.full((4, 4), PairState.CANDIDATE, np.int8)
    state[3], state[:, 3] = PairState.NO_CONTACT, PairState.NO_CONTACT
    np.fill_diagonal(state, PairState.NO_CONTACT)
    logit = np.where(state == PairState.CANDIDATE, 2.0, np.nan)
    return replace(
        plain,
        state=state,
        hidden_overlap=np.zeros((4, 4)),
        logit_geometry=logit,
        p_geometry=np.where(np.isnan(logit), 0.0, expit(logit)),
    )


def learnt_of(paper, value):
    logit = np.where(np.isnan(paper.logit_geometry), np.nan, value)
    return replace(paper, logit_geometry=logit, p_geometry=np.where(np.isnan(logit), 0.0, expit(logit)))


def test_the_paper_has_its_share_and_no_more_than_its_bounds(paper):
    learnt = learnt_of(paper, -1.0)
    told = join_geometry(paper, learnt, learnt.logit_geometry)
    assert told.logit_geometry[0, 1] == pytest.approx(0.9 * -1.0 + 0.1 * 2.0)
    certain = replace(paper, logit_geometry=paper.logit_geometry * 50.0)
    told = join_geometry(certain, learnt, learnt.logit_geometry)
    assert told.logit_geometry[0, 1] == pytest.approx(0.9 * -1.0 + 0.1 * 6.0)
    assert told.p_geometry[0, 1] == pytest.approx(expit(-0.3)) and told.p_geometry[0, 3] == 0.0


def test_where_the_paper_says_nothing_the_network_speaks_alone(paper):
    silent = replace(paper, logit_geometry=np.full((4, 4), np.nan))
    learnt = learnt_of(paper, 3.0)
    told = join_geometry(silent, learnt, learnt.logit_geometry)
    assert np.array_equal(told.logit_geometry, learnt.logit_geometry, equal_nan=True)


def test_what_is_covered_does_not_obstruct_what_covers_it(paper):
    overlap = np.zeros((4, 4))
    overlap[1, 0] = 0.7
    learnt = learnt_of(paper, 4.0)
    told = join_geometry(replace(paper, hidden_overlap=overlap), learnt, learnt.logit_geometry)
    assert told.logit_geometry[0, 1] == LEAST_BEHIND and told.logit_geometry[1, 0] > 3.0
    overlap[0, 1] = 0.6
    both = join_geometry(replace(paper, hidden_overlap=overlap), learnt, learnt.logit_geometry)
    assert both.logit_geometry[0, 1] > 3.0, "each covers the other: neither is known to be behind"


@pytest.mark.parametrize(("hides", "taken"), [(0.5, True), (1.5, False)])
def test_what_stands_before_a_piece_stands_before_the_whole(paper, hides, taken):
    overlap = np.zeros((4, 4))
    overlap[1, 0] = 0.7  # 1 is a piece of 0
    learnt = learnt_of(paper, -2.0)
    logit, state = learnt.logit_geometry.copy(), learnt.state.copy()
    logit[1, 2], logit[0, 2] = 5.0, -5.0
    logit[1, 3], state[1, 3] = 3.0, PairState.CANDIDATE  # 3 touches the piece alone
    learnt = replace(learnt, logit_geometry=logit, state=state)
    told = join_geometry(
        replace(paper, hidden_overlap=overlap), learnt, np.where(np.isnan(logit), np.nan, hides)
    )
    assert (told.logit_geometry[0, 2] > 4.0) == taken
    assert told.is_candidate[0, 3] == taken and (told.p_geometry[0, 3] > 0.9) == taken
    assert told.logit_geometry[1, 2] > 4.0 and told.logit_geometry[0, 1] == LEAST_BEHIND
    assert told.logit_geometry[2, 0] == pytest.approx(0.9 * -2.0 + 0.1 * 2.0), "the others stay as they are"
