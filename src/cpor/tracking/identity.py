"""Which object of the next look is which of those known, with a probability.

Two looks at one thing speak in log-odds, s, for "the same" against "not the same": by its place, where some
of its pixels are found again at their depth, in their colours or in their hues under another light; else by
its colours and size, where it is gone from its place and the other lies where nothing lay. A set of matches
M, in which each object has at most one partner, has the weight prod of exp(s) over M: one without is new, or
not seen any more. The likeliest set is taken, and the probability of each of its matches is the sum of the
weights of all sets with it over the sum of all.
A mask may hold two things that are seen apart in the next look: then the match is as likely as its share of
the mask, unless a person pointed at a spot that tells which of them is meant.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from cpor.scene import Scene
from cpor.tracking.looks import SAME_PIXELS, SHOWN, ObjectLook, PlaceSeen, alike, find_in, is_unchanged

SURE = 0.9
"""A match below this probability is said to be in doubt, and nothing is carried over by it."""

SURE_ODDS = float(np.log(SURE / (1.0 - SURE)))
"""The same as log-odds."""

NEAR = 0.2
"""Least share of either object's pixels found again on the other for them to be compared by place."""

PIECE = 0.5
"""Where more of an object than this lies on another's old place, it is a piece of it; and the reverse."""

BY_PLACE = (-4.5, 2.1, 11.0, -4.3)
"""Log-odds by place: intercept; larger share of either's pixels that are found on the other; overlap of
histograms of colour; change of colour of those pixels, of 100 levels. Learnt on 1,562 pairs of simulated
looks of our networks, and on the same with another thing put in the place by hand; the intercept is 3.2
larger, since hardly ever things are swapped: of 1,630 matches of whole looks 3 were wrong."""

RELIT = (-11.9, 16.3, -3.6)
"""Log-odds by place under another light: intercept; overlap of histograms of hue; square of the logarithm of
how many times brighter it is. What lay in the shade of a thing is lit when that is taken away. Learnt on 100
pairs of simulated looks whose pixels changed their colour by more than 25, and on 1,032 things put in the
place of another by hand; the intercept is 1.5 larger, since of such pairs 100 are the same and 19 are not."""

BY_LOOK = (-11.0, 14.0, -4.0, -2.0, 4.0, -10.0, -4.0)
"""Log-odds of a thing that moved, set by hand: intercept; overlap of histograms; distance of mean colours;
log-ratio of areas; share of it that is gone from its old place; of the other, shares that may have been
hidden before and that were there before."""

NOT_FAR = (4.0, -32.0)
"""What nearness adds to the log-odds of a thing that moved, where it is above 0: intercept; distance as a
share of the image's width. Of 107 things that moved in simulated looks 35 are sure by look with it, 6 without
it; none of 928 others."""

OTHER = 0.5
"""Least overlap of histograms, of colours or of hues, of pixels that show the same thing."""

MOST = 6.0
"""Most log-odds of a thing that moved: another one may look just like it."""

NAMED, CLAIMED = 6.0, 4.0
"""Log-odds that one name, unique in both looks, and one number of a segmenter that says to keep them, add;
other names, and other numbers, take away as much."""

POINTED = 6.0
"""Least log-odds of a match that shows the very spot that a person pointed at, in its place."""

LEAST = -7.0
"""Pairs below these log-odds cannot be the same."""

MOST_TOGETHER = 12
"""Objects of one group that are summed over exactly; of a larger one the unlikeliest pairs are left out."""


class SameObject(NamedTuple):
    """A known object found again, with the probability that it is the same."""

    known: int
    p: float


@dataclass(frozen=True)
class Identities:
    """Which known object each found one is.

    Attributes:
        same: The known object that each one found is; one that is not listed is new.
        events: What is to be said: pieces, things grown together, doubts.
        left: Known objects that left the spot where a person pointed at them.
        joined: Known objects that turn out to be pieces of another one.
    """

    same: Mapping[int, SameObject]
    events: tuple[str, ...] = ()
    left: frozenset[int] = frozenset()
    joined: frozenset[int] = frozenset()


def identify(
    known: Mapping[int, ObjectLook],
    looks: Mapping[int, ObjectLook],
    scene: Scene,
    before: Scene | None = None,
    taken: frozenset[int] = frozenset(),
    ids_are_kept: bool = False,
    spots: Mapping[int, ObjectLook] | None = None,
) -> Identities:
    """Match the objects of a look with those known.

    Args:
        known: How each known object looked when it was last seen.
        looks: How each object of the new look looks.
        scene: The new look.
        before: The look before; None: nothing is known of what lay where.
        taken: Known objects that are gone, since the robot took them away or they are pieces of another one:
            only the very same in the same place is one.
        ids_are_kept: Whether the segmenter says to give a thing the same number in every frame.
        spots: What a person pointed at of known objects; where it still shows, the object is there.
    """
    olds, news = [i for i in known if known[i].area], [k for k in looks if looks[k].area]
    s, shares = _odds_of_all(olds, news, known, looks, scene, before, (taken, ids_are_kept))
    odds = s.copy()
    spots = {i: spot for i, spot in (spots or {}).items() if i in olds and i not in taken}
    shown, left = _find_spots(spots, scene)
    for i, k in shown.items():
        r, c = olds.index(i), news.index(k)
        own = max(s[r, c], POINTED)
        s[r] = s[[other not in shown for other in olds], c] = -np.inf
        s[r, c] = own
    areas = np.array([known[i].area for i in olds])
    pairs = _assign(s, shares, areas, [olds.index(i) for i in shown])
    joined = {olds[other] for other in _keep_one_partner(s, shares, pairs)}
    p, same = marginals(s), {}
    for r, c in pairs:
        alone = 1.0 if olds[r] in shown else _was_one(r, c, pairs, shares, odds, [looks[k] for k in news])
        same[news[c]] = SameObject(olds[r], float(p[r, c]) * alone)
    matched = {olds[r] for r, _ in pairs}
    joined -= matched | taken | spots.keys()
    shares[[r for r, i in enumerate(olds) if i in taken - matched]] = 0.0  # told when they went
    return Identities(same, _events(same, olds, news, shares), left, frozenset(joined))


def _odds_of_all(
    olds: list[int],
    news: list[int],
    known: Mapping[int, ObjectLook],
    looks: Mapping[int, ObjectLook],
    scene: Scene,
    before: Scene | None,
    told: tuple[frozenset[int], bool],
) -> tuple[Float[np.ndarray, "m n"], Float[np.ndarray, "m n 2"]]:
    """Log-odds of every match, and shares of the masks that overlap; `told` is `taken` and `ids_are_kept`."""
    taken, ids_are_kept = told
    s = np.full((len(olds), len(news)), -np.inf)
    there = [find_in(known[i], scene) for i in olds]
    then = [None if before is None else find_in(looks[k], before) for k in news]
    shares, centres = np.zeros((*s.shape, 2)), [looks[k].pixels.mean(axis=0) for k in news]
    for r, i in enumerate(olds):
        for c, k in enumerate(news):
            shares[r, c] = _shares(known[i], there[r], looks[k], k)
            far = float(np.linalg.norm(there[r].centre - centres[c]) / scene.observation.shape[1])
            both = shares[r, c]
            s[r, c] = _log_odds(known[i], there[r], looks[k], k, then[c], both, far, i in taken)
            if np.isfinite(s[r, c]):
                s[r, c] += _said(i, k, known, looks, ids_are_kept)
    s[s < LEAST] = -np.inf
    return s, shares


def _assign(
    s: Float[np.ndarray, "m n"], shares: Float[np.ndarray, "m n 2"], areas: np.ndarray, pointed: list[int]
) -> list[tuple[int, int]]:
    """The likeliest set of matches, by row and column.

    Of pieces that are all sure to be of one thing, what was pointed at is it, else what shares most pixels.
    """
    common = np.where(shares.max(axis=2) > PIECE, shares[:, :, 0], 0.0)
    common *= areas[:, None]
    gain = np.where(s > 0.0, np.minimum(s, SURE_ODDS) + common / max(common.max(initial=0.0), 1.0), 0.0)
    gain[pointed] *= 2.0
    rows, columns = linear_sum_assignment(gain, maximize=True) if s.size else ((), ())
    return [(r, c) for r, c in zip(rows, columns, strict=True) if s[r, c] > 0.0]


def _keep_one_partner(
    s: Float[np.ndarray, "m n"], shares: Float[np.ndarray, "m n 2"], pairs: Sequence[tuple[int, int]]
) -> set[int]:
    """Remove from the log-odds what further pieces of a matched thing could be; events tell of them.

    Returns:
        Rows of known objects that are such pieces, or matched.
    """
    joined: set[int] = set()
    for r, c in pairs:
        joined |= set(np.flatnonzero((shares[:, c, 0] > PIECE) & (s[:, c] > 0.0)).tolist())
        own = s[r, c]
        s[r, shares[r, :, 1] > PIECE] = -np.inf
        s[shares[:, c, 0] > PIECE, c] = -np.inf
        s[r, c] = own
    return joined


def _find_spots(spots: Mapping[int, ObjectLook], scene: Scene) -> tuple[dict[int, int], frozenset[int]]:
    """The object that shows the spot of each known one, where it is as it was; and whose spot is gone."""
    shown, left = {}, set()
    for i, spot in spots.items():
        found = find_in(spot, scene)
        k = max(found.on, key=found.on.__getitem__, default=0)
        if found.stays >= SHOWN * len(spot.pixels) and k:
            as_before = found.recoloured[k] <= SAME_PIXELS
            if as_before or relit(found.same_hues[k], found.relit[k]) > SURE_ODDS:
                shown[i] = k
        if found.gone > PIECE * len(spot.pixels):
            left.add(i)
    return shown, frozenset(left)


def _was_one(
    r: int,
    c: int,
    pairs: Sequence[tuple[int, int]],
    shares: Float[np.ndarray, "m n 2"],
    odds: Float[np.ndarray, "m n"],
    news: Sequence[ObjectLook],
) -> float:
    """Probability that a match is right where the known mask may have held two things, seen apart now.

    The id was given to either of them with its share of the mask. Pieces of one thing look alike: in 158
    simulated looks 5 by more than 0.35, two things 6 times by less than 0.25. What came into view where the
    thing lay does not show what the mask showed there.
    """
    own = shares[r, c, 0]
    if shares[r, c].max() < NEAR:
        return 1.0  # it moved; nothing is said of its place
    others, matched = 0.0, {column for _, column in pairs}
    for other, share in enumerate(shares[r, :, 0]):
        if other != c and (share > own or other not in matched):
            apart = max(0.0, 1.0 - 2.0 * alike(news[c].histogram, news[other].histogram))
            others += share * apart / (1.0 + np.exp(-odds[r, other]))
    return float(own / (own + others)) if others else 1.0


def _shares(old: ObjectLook, found: PlaceSeen, new: ObjectLook, k: int) -> tuple[float, float]:
    """Share of what can be seen of the old object's place that is on the new one, and the reverse."""
    on = found.on.get(k, 0)
    return on / max(found.stays + found.gone, 1), min(1.0, on * old.area / max(len(old.pixels), 1) / new.area)


def _log_odds(
    old: ObjectLook,
    found: PlaceSeen,
    new: ObjectLook,
    k: int,
    then: PlaceSeen | None,
    shares: Float[np.ndarray, " 2"],
    far: float,
    taken: bool,
) -> float:
    """How much speaks for two looks being of one thing, without names and numbers."""
    likeness = alike(old.histogram, new.histogram)
    apart = float(np.linalg.norm(old.colour - new.colour)) / 100.0
    sizes = abs(float(np.log(old.area / new.area)))
    if taken:
        return MOST if is_unchanged(old, new) and likeness > 0.5 else -np.inf
    by_place = -np.inf
    if shares.max() >= NEAR:
        # Where a mask grew or shrank, what of it is new says nothing of the rest.
        colours = max(likeness, found.alike[k])
        by_place = float(np.dot(BY_PLACE, (1.0, shares.max(), colours, found.recoloured[k] / 100.0)))
        hues = max(alike(old.hues, new.hues), found.same_hues[k])
        by_place = max(by_place, relit(hues, found.relit[k]))
    left = (found.gone + _others(found)) / max(found.stays + found.gone + found.hidden, 1)
    hidden, there = 1.0, 1.0
    if then is not None:
        n = max(then.stays + then.gone + then.hidden, 1)
        hidden, there = then.hidden / n, (then.stays - _others(then)) / n
    by_look = float(np.dot(BY_LOOK, (1.0, likeness, apart, sizes, left, hidden, there)))
    by_look += 0.0 if np.isnan(far) else max(0.0, float(np.dot(NOT_FAR, (1.0, far))))
    return max(by_place, min(MOST, by_look))


def relit(hues: float, brighter: float) -> float:
    """Log-odds by place of a thing under another light."""
    return float(np.dot(RELIT, (1.0, hues, brighter**2)))


def _others(found: PlaceSeen) -> int:
    """Pixels that have their depth, but show something of other colours and hues."""
    return sum(n for k, n in found.on.items() if max(found.alike[k], found.same_hues[k]) < OTHER)


def _said(
    i: int, k: int, known: Mapping[int, ObjectLook], looks: Mapping[int, ObjectLook], ids_are_kept: bool
) -> float:
    """What names and numbers add."""
    old, new, added = known[i].name, looks[k].name, 0.0
    if old is not None and new is not None:
        alone = sum(x.name == old for x in known.values()) == sum(x.name == new for x in looks.values()) == 1
        added += (NAMED if alone else 0.0) if old == new else -2.0 * NAMED
    if ids_are_kept:
        added += CLAIMED if i == k else -CLAIMED
    return added


def marginals(s: Float[np.ndarray, "m n"]) -> Float[np.ndarray, "m n"]:
    """Probability of each match, given the log-odds of each. Shape (m, n).

    Exact for groups of at most `MOST_TOGETHER` objects on either side.
    """
    s = np.array(s, dtype=np.float64)
    while True:
        finite = np.isfinite(s)
        m, n = s.shape
        links = csr_array(np.block([[np.zeros((m, m)), finite], [finite.T, np.zeros((n, n))]]))
        _, group = connected_components(links, directed=False)
        ids = set(group.tolist())
        groups = [(np.flatnonzero(group[:m] == g), np.flatnonzero(group[m:] == g)) for g in ids]
        large = [g for g in groups if min(len(g[0]), len(g[1])) > MOST_TOGETHER]
        if not large:
            break
        inside = np.ix_(*large[0])
        least = s[inside][np.isfinite(s[inside])].min()
        s[inside] = np.where(s[inside] <= least, -np.inf, s[inside])
    p = np.zeros_like(s)
    for rows, columns in groups:
        if len(rows) and len(columns):
            part = np.exp(s[np.ix_(rows, columns)])
            p[np.ix_(rows, columns)] = _sum_over(part) if len(rows) >= len(columns) else _sum_over(part.T).T
    return p


def _sum_over(weight: Float[np.ndarray, "m n"]) -> Float[np.ndarray, "m n"]:
    """Marginals of one group, by sums over the subsets of columns that are used. Shape (m, n)."""
    m, n = weight.shape
    used = np.arange(1 << n)
    ahead = [np.where(used == 0, 1.0, 0.0)]  # rows before, by columns used
    for row in weight:
        ahead.append(_add_row(ahead[-1], row, used))
    behind = np.where(used >= 0, 1.0, 0.0)  # rows after, by columns used before them: any may stay free
    p = np.zeros_like(weight)
    for r in range(m - 1, -1, -1):
        for c in range(n):
            free = (used >> c & 1) == 0
            p[r, c] = weight[r, c] * (ahead[r][free] * behind[used[free] | 1 << c]).sum()
        behind = behind + sum(
            weight[r, c] * np.where(used >> c & 1, 0.0, behind[used | 1 << c]) for c in range(n)
        )
    return np.asarray(p / ahead[-1].sum())


def _add_row(before: np.ndarray, row: np.ndarray, used: np.ndarray) -> np.ndarray:
    after = before.copy()
    for c, weight in enumerate(row):
        free = (used >> c & 1) == 0
        after[used[free] | 1 << c] += weight * before[free]
    return after


def _events(
    same: Mapping[int, SameObject], olds: list[int], news: list[int], shares: Float[np.ndarray, "m n 2"]
) -> tuple[str, ...]:
    """Splits, merges and doubts, in sentences."""
    told = []
    name = {k: same[k].known if k in same else k for k in news}
    for r, i in enumerate(olds):
        pieces = [news[c] for c in range(len(news)) if shares[r, c, 1] > PIECE and shares[r, c, 0] > NEAR]
        if len(pieces) > 1:
            told.append(f"object {i} shows in {len(pieces)} pieces now")
    for c, k in enumerate(news):
        parts = [i for r, i in enumerate(olds) if shares[r, c, 0] > PIECE and shares[r, c, 1] > NEAR]
        if len(parts) > 1:
            others = " and ".join(f"object {i}" for i in parts if i != name[k])
            told.append(f"{others} and object {name[k]} are seen as one now")
    doubts = [match for match in same.values() if match.p < SURE]
    told += [f"object {each.known} is probably the same as before ({each.p:.0%})" for each in doubts]
    return tuple(told)
