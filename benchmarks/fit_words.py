"""Fit what words are judged by, on dev scenes and dev photographs, and write the files of `cpor.words`.

1. `usual_classes.json`: how often the noun classifier says each class, over all objects.
2. `shape_weights.json`: what tells the shape of an object (`cpor.words.appearance`), on objects judged by
   eye and on simulated ones.
3. `word_weights.json`: by how much each word counts for an object (`cpor.words.word_judge`). The log-odds
   against none in view are nearly linear in the weights: they are linearised, the likelihood of what was
   meant is maximised, and again. Requests: those of `evidence_words` on simulated dev scenes, those written
   for the dev photographs, and some made of what was judged by eye: a noun, colour and noun, and nouns of
   things that are not there. Shapes are told by weights fitted on other pictures.

What it prints is held back in five folds, by picture.

Run: python benchmarks/fit_words.py [--scenes 60] [--write]
"""

import argparse
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from evidence_words import BY_EYE, OUT, TEST_PICTURES, kept, object_at, printed_on, see, see_photographs
from scipy.optimize import minimize
from words_truth import FAMILIES

from cpor.scene import Scene
from cpor.words import description
from cpor.words.appearance import SHAPES_FILE, ShapeWeights, recognise, shape_factors
from cpor.words.description import Description, describe
from cpor.words.grounding_answers import Exchange, RefusedError
from cpor.words.nouns import USUAL_FILE, judge_classes, lift
from cpor.words.request_words import Wish, all_wishes, parse_request
from cpor.words.shapes import SHAPES
from cpor.words.vocabulary import split_words, vocabulary
from cpor.words.word_answer import ACTED, RequestReader
from cpor.words.word_judge import WordJudge
from cpor.words.word_weights import FILE, WEIGHTS, fitted_weights, probabilities

FOLDS, ROUNDS = 5, 3

PENALTY, APART = 0.1, 0.3
"""Of the square of a weight less `PRIOR`, and of the square of the difference between both ends."""

EITHER_WAY = ("described", "related", "any", "shape", "kind", "kind_best", "large", "border", "share")
"""Weights that may be negative; others weigh evidence."""

LEAST = {"landmark": 1.0}
"""Least value of a weight: requests hardly ever point to what is not there, and a person may."""

PRIOR = {
    "colour": 1.0,
    "form": 1.0,
    "relation": 1.0,
    "landmark": 1.0,
    "place": 1.0,
    "size": 1.0,
    "label": 4.0,
    "shape_chance": 1.0,
}
"""Weights where nothing is known: likelihoods count as they are, other weights are 0."""

_NOUNS, _KINDS = ("shapes", "kinds"), ("kinds",)
ONLY_FOR = {
    **dict.fromkeys(("colour", "colour_fits"), ("colours",)),
    "usual_colour": _NOUNS,
    **dict.fromkeys(("shape", "shape_class", "shape_chance"), _NOUNS),
    **dict.fromkeys(("kind", "kind_class", "kind_chance", "kind_best", "kind_clear", "kind_said"), _KINDS),
    "label": ("kinds", "names"),
    "form": ("forms",),
    **dict.fromkeys(("related", "relation", "relation_best", "landmark"), ("relations",)),
    **dict.fromkeys(("place", "size"), ("most", "order")),
}
"""Parts of a request that some weights count for; others count for all."""

MADE_UP = 0.3
"""How much a request that was made from labels counts beside one that a person wrote."""

SEVERAL, MIXED = 0.5, 0.1
"""The same of one that several objects fit; of one for the colour of one thing and the noun of another."""

DOMAINS = "simulated", "photographs"

PENALTY_OWN, PENALTY_BASE, SIMULATED = 4.0, 0.05, 0.1
"""Of the squares of the weights that tell shapes; how much a simulated object counts beside a judged one."""

EACH, MADE = 60, 8
"""Simulated requests of each family, and requests made from the labels of each photograph."""


@dataclass(eq=False)
class Case:
    """One request with what it means.

    Attributes:
        domain, group, family, words: Where it comes from; all cases of a group are in one fold.
        ids: Objects that may be meant.
        target: How likely each of them is meant, and none at the end. Shape (n + 1,).
        counts: How much it counts.
    """

    domain: str
    group: str
    family: str
    words: str
    reader: RequestReader
    wish: Wish
    judge: WordJudge
    ids: list[int]
    target: np.ndarray
    counts: float

    def log_odds(self, weights: Mapping[str, float]) -> np.ndarray:
        """Log of the probability of each object, and of none. Shape (n + 1,)."""
        self.judge.weights = weights
        p = probabilities(self.judge.odds(self.wish), weights)
        each = np.array([p[k] for k in self.ids])
        return np.log(np.append(each, max(1.0 - each.sum(), 1e-12)) + 1e-12)


def make_case(
    picture: "Picture", family: str, words: str, meant: dict[int, float], counts: float
) -> Case | None:
    """A case; None where the request is asked back whatever the weights are."""
    scene, printed = picture.scene, picture.printed
    inside = describe(scene).inside
    request = parse_request(words, frozenset())
    if request.trouble or request.number is not None or not inside:
        return None
    reader = RequestReader(scene, words, {k: frozenset() for k in sorted(inside)}, Exchange(), printed)
    judge = reader.judge(request.wish)
    try:
        judge.odds(request.wish)
    except RefusedError:
        return None
    if judge.unknown or judge.unjudged or judge.narrow or not judge.judged:
        return None
    ids = list(reader.named)
    target = np.array([*(meant.get(k, 0.0) for k in ids), 0.0])
    target[-1] = max(0.0, 1.0 - target.sum())
    return Case(
        picture.domain,
        picture.name,
        family,
        words,
        reader,
        request.wish,
        judge,
        ids,
        target,
        counts,
    )


def described(name: str, scene: Scene) -> Scene:
    """The scene; what the shape network says of it is kept on disk."""
    path = OUT / "described" / f"{name.replace('/', '_')}.{_masks_key(scene)}"

    def make() -> tuple[Scene, dict[str, object]]:
        each = describe(scene)
        return scene, {key: getattr(each, key) for key in ("seen", "inside")}

    scene, parts = kept(path, make)
    vars(describe(scene)).update(parts)
    return scene


@dataclass(eq=False)
class Picture:
    """A scene whose objects and requests are known.

    Attributes:
        said: Probability of each class for each object, by the noun classifier.
        shapes: Words for the shape of some objects, by their ids.
        printed: Words that are printed on objects.
        asked: Requests: family, words, how likely each object is meant, and how much it counts.
    """

    domain: str
    name: str
    scene: Scene
    said: dict[int, np.ndarray]
    shapes: dict[int, set[str]]
    asked: list[tuple[str, str, dict[int, float], float]]
    printed: dict[int, tuple[str, ...]] = field(default_factory=dict)

    def describe_by(self, usual: np.ndarray, weights: ShapeWeights | None) -> Description:
        """The description with these usual classes, and with shapes told by these weights."""
        described = describe(self.scene)
        described.said = self.said
        described.classes = {k: lift(p, usual) for k, p in self.said.items()}
        described.shape_weights = weights
        return described


def simulated_pictures(scenes: int) -> Iterator[Picture]:
    """Simulated dev scenes; where pieces show one object, each of them may be taken."""
    rng, count = np.random.default_rng(3), dict.fromkeys(FAMILIES, 0)
    for view, seen in see("dev", scenes):
        seen = described(view.name, seen)
        owners, asked = view.owners(seen), []
        for family, make in FAMILIES.items():
            if count[family] >= EACH or family == "unknown":
                continue
            if (each := make(view.shown, rng)) is None:
                continue
            wanted = each.may_be or ({each.right} - {None})
            masks = {obj: [k for k, owner in owners.items() if owner == obj] for obj in wanted}
            count[family] += 1
            meant = {k: 1.0 / len(wanted) / len(masks[obj]) for obj in wanted for k in masks[obj]}
            asked.append((family, each.words, meant, 1.0))
        looks = {str(k): (set(look.colours), set(look.shapes)) for k, look in view.shown.items()}
        asked += [("made: mixed", words, {}, MIXED) for words in mixed(looks, rng)]
        shapes = {k: set(look.shapes) for k, look in view.matched(seen).items()}
        yield Picture("simulated", view.name, seen, _classes(view.name, seen), shapes, asked)


def photographs() -> Iterator[Picture]:
    """Dev photographs with requests as written, and made from what was judged by eye."""
    by_eye = json.loads(BY_EYE.read_text())
    nouns = sorted(
        {noun for each in by_eye.values() for o in each["objects"].values() for noun in o["nouns"]}
    )
    rng = np.random.default_rng(4)
    for name, judged, scene in see_photographs():
        if name.startswith(TEST_PICTURES):
            continue
        scene = described(name, scene)
        objects = judged["objects"]
        at = {key: object_at(scene, each["point"]) for key, each in objects.items()}
        asked, made = [], []
        for each in judged["requests"]:
            if each["family"] == "ambiguous":
                several = fitting(each["words"], objects)
                asked += [(each["family"], each["words"], several, SEVERAL)] if len(several) > 1 else []
            elif each["answer"] != "ask":
                keys = [] if each["answer"] == "none" else list(each["answer"])
                asked.append((each["family"], each["words"], keys, 1.0))
        for each in objects.values():
            for noun in each["nouns"]:
                same = [k for k, other in objects.items() if noun in other["nouns"]]
                made.append(("made: noun", f"the {noun}", same, MADE_UP))
                for colour in each["colours"]:
                    alike = [k for k in same if colour in objects[k]["colours"]]
                    made.append(("made: colour and noun", f"the {colour} {noun}", alike, MADE_UP))
        said = {noun for each in objects.values() for noun in each["nouns"]}
        there = set().union(*map(shape_keys, said))
        away = [noun for noun in nouns if noun not in said and not there & shape_keys(noun)]
        if 2 * len(objects) >= len(scene.objects):  # else what is not labelled may well be one
            asked += [("made: absent", f"the {noun}", [], MADE_UP) for noun in rng.permutation(away)[:2]]
            looks = {key: (set(each["colours"]), set(each["nouns"])) for key, each in objects.items()}
            asked += [("made: mixed", words, [], MIXED) for words in mixed(looks, rng)]
        asked += [made[k] for k in rng.permutation(len(made))[:MADE]]
        meant = [sorted({obj for k in keys if (obj := at[k]) is not None}) for _, _, keys, _ in asked]
        shapes = {
            obj: set().union(*map(shape_keys, objects[key]["nouns"])) or {"thing"}
            for key, obj in at.items() if obj is not None
        }  # fmt: skip
        yield Picture("photographs", name, scene, _classes(name, scene), shapes, [
            (family, words, dict.fromkeys(ids, 1.0 / max(1, len(ids))), counts)
            for (family, words, _, counts), ids in zip(asked, meant, strict=True)
        ], printed_on(name, scene))  # fmt: skip


def mixed(looks: Mapping[str, tuple[set[str], set[str]]], rng: np.random.Generator) -> list[str]:
    """A request for the colour of one object and a noun of another, where no object has both.

    Args:
        looks: Colours and nouns of each object.
        rng: Random generator.
    """
    colours = sorted(set().union(*(each for each, _ in looks.values())))
    nouns = sorted(set().union(*(each for _, each in looks.values())) - {"thing"})
    apart = [
        f"the {colour} {noun}"
        for colour in colours
        for noun in nouns
        if not any(colour in some and noun in others for some, others in looks.values())
    ]
    return rng.permutation(apart)[:1].tolist()


def fitting(words: str, objects: Mapping[str, dict[str, list[str]]]) -> list[str]:
    """The objects of which colours and nouns of a request are true, by eye."""
    wish, shapes = parse_request(words, frozenset()).wish, vocabulary().shape_words
    return [
        name
        for name, each in objects.items()
        if set(wish.colours) <= set(each["colours"])
        and all(
            any(
                word == " ".join(split_words(noun)) or (word in shapes and key in shape_keys(noun))
                for noun in each["nouns"]
            )
            for key, word in (*wish.shapes, *wish.kinds)
        )
    ]


def _classes(name: str, scene: Scene) -> dict[int, np.ndarray]:
    """What the noun classifier says of each object; kept on disk."""
    path = OUT / "classes" / f"{name.replace('/', '_')}.{_masks_key(scene)}"
    return kept(path, lambda: judge_classes(scene))


def _masks_key(scene: Scene) -> str:
    return hashlib.sha256(np.ascontiguousarray(scene.visible_ids)).hexdigest()[:8]


def shape_keys(noun: str) -> set[str]:
    """Shapes that a noun is a word for, or a kind of."""
    meanings = vocabulary().phrases.get(tuple(split_words(noun)), ())
    return {each.key for each in meanings if each.kind in ("shape", "kind")}


def usual_classes(pictures: list[Picture]) -> np.ndarray:
    """Mean probability of each class, photographs and simulated scenes in equal parts. Shape (1000,)."""
    return np.mean([
        np.mean([p for each in pictures if each.domain == domain for p in each.said.values()], axis=0)
        for domain in DOMAINS
    ], axis=0)  # fmt: skip


def fit_shapes(pictures: list[Picture], usual: np.ndarray) -> ShapeWeights:
    """Weights that tell shapes: any of the words that are true of an object is right."""
    own, shared, true, counts = [], [], [], []
    for picture in pictures:
        described = picture.describe_by(usual, None)
        for k, words in picture.shapes.items():
            if k in described.seen and k in described.classes:
                one, each = shape_factors(described.seen[k], described.classes[k])
                own.append(one)
                shared.append(each)
                true.append([float(word in words) for word in SHAPES])
                counts.append(SIMULATED if picture.domain == "simulated" else 1.0)
    x, each, right, weight = map(np.array, (own, shared, true, counts))
    size, n = x.shape[1], len(SHAPES)

    def unpack(flat: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return flat[: size * n].reshape(size, n), flat[size * n : -3], flat[-3:]

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weights, base, of_shape = unpack(flat)
        scores = x @ weights + base + each @ of_shape
        p = np.exp(scores - scores.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        hit = (p * right).sum(axis=1) + 1e-12
        by = weight[:, None] * (p - p * right / hit[:, None])
        value = -(weight * np.log(hit)).sum() + 0.5 * (
            PENALTY_OWN * (weights**2).sum() + PENALTY_BASE * (base**2).sum()
        )
        slopes = x.T @ by + PENALTY_OWN * weights, by.sum(axis=0) + PENALTY_BASE * base
        return value, np.concatenate([*map(np.ravel, slopes), np.einsum("nsk,ns->k", each, by)])

    start = np.concatenate([np.zeros(size * n + n), [0.5, 0.3, 0.0]])
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 150})
    return ShapeWeights(*unpack(found.x))


def needed(wish: Wish) -> list[int]:
    """Weights that count for a request, as numbers of `WEIGHTS`."""
    kinds = set().union(*({key for key, value in vars(each).items() if value} for each in all_wishes(wish)))
    return [n for n, name in enumerate(WEIGHTS) if name not in ONLY_FOR or kinds.intersection(ONLY_FOR[name])]


class Linear:
    """The log-odds of all cases, linear about weights of both ends: shapes unsure, and sure."""

    def __init__(self, cases: list[Case], ends: np.ndarray) -> None:
        self.cases, self.ends, step = cases, ends, 0.02
        self.sure = [case.reader.sure(case.wish) for case in cases]
        self.here, self.slopes = [], []
        for case, sure in zip(cases, self.sure, strict=True):
            at = (1.0 - sure) * ends[0] + sure * ends[1]
            here = case.log_odds(dict(zip(WEIGHTS, at, strict=True)))
            slopes = np.zeros((len(at), len(here)))
            for k in needed(case.wish):
                moved = case.log_odds(dict(zip(WEIGHTS, at + step * (np.arange(len(at)) == k), strict=True)))
                slopes[k] = (moved - here) / step
            self.here.append(here)
            self.slopes.append(slopes)

    def log_p(self, k: int, ends: np.ndarray) -> np.ndarray:
        """Log-probability of each object of a case, and of none, at other weights."""
        away = (1.0 - self.sure[k]) * (ends - self.ends)[0] + self.sure[k] * (ends - self.ends)[1]
        scores = self.here[k] + away @ self.slopes[k]
        scores = scores - scores.max()
        return np.asarray(scores - np.log(np.exp(scores).sum()))

    def fit(self, used: list[int]) -> np.ndarray:
        """Weights of both ends with the highest penalised likelihood of some cases."""
        prior = np.array([PRIOR.get(name, 0.0) for name in WEIGHTS])

        def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
            ends = flat.reshape(2, -1)
            apart = ends[1] - ends[0]
            value = 0.5 * PENALTY * ((ends - prior) ** 2).sum() + 0.5 * APART * (apart**2).sum()
            slope = PENALTY * (ends - prior) + APART * np.stack([-apart, apart])
            for k in used:
                log_p, case, sure = self.log_p(k, ends), self.cases[k], self.sure[k]
                value -= case.counts * float(case.target @ log_p)
                by = case.counts * self.slopes[k] @ (np.exp(log_p) - case.target)
                slope += np.stack([(1.0 - sure) * by, sure * by])
            return value, slope.ravel()

        bounds = [(-np.inf if name in EITHER_WAY else LEAST.get(name, 0.0), np.inf) for name in WEIGHTS] * 2
        start, method = np.clip(self.ends.ravel(), *np.transpose(bounds)), "L-BFGS-B"
        found = minimize(loss, start, jac=True, method=method, bounds=bounds, options={"maxiter": 100})
        return np.asarray(found.x.reshape(2, -1))


def report_shapes(pictures: list[Picture], usual: np.ndarray, weights: list[ShapeWeights]) -> None:
    """Print how often the likeliest shape is right, where it is as likely as it must be to be said."""
    for domain in DOMAINS:
        rows = []
        for picture, each in zip(pictures, weights, strict=True):
            if picture.domain == domain:
                described = picture.describe_by(usual, each)
                for k, words in picture.shapes.items():
                    if k in described.seen and k in described.classes:
                        p = recognise(described.seen[k], described.classes[k], described.sure, each)
                        best = max(p, key=lambda word: p[word])
                        rows.append((p[best], best in words))
        chance, right = np.array(rows).T
        told = ", ".join(
            f"{int(right[chance >= c].sum())} of {int((chance >= c).sum())} from {c}"
            for c in (0.0, 0.45, 0.5, 0.6, 0.7)
        )
        print(f"{domain}: shapes of {len(rows)} objects right: {told}")


def report(cases: list[Case], log_p: list[np.ndarray]) -> None:
    """Print how well the probabilities do, and what acting from some probability on would give."""
    for domain in DOMAINS:
        rows = [
            (c, np.exp(p))
            for c, p in zip(cases, log_p, strict=True)
            if c.domain == domain and not c.family.startswith("made")
        ]
        best = np.array([p[:-1].max() for _, p in rows])
        true = np.array([c.target[p[:-1].argmax()] for c, p in rows])
        right = (true > 0) & np.array([c.family != "ambiguous" for c, _ in rows])
        loss = -np.mean([c.target @ np.log(p) for c, p in rows])
        bins = np.minimum((best * 10).astype(int), 9)
        ece = sum(abs(best[bins == b].sum() - true[bins == b].sum()) for b in range(10)) / len(best)
        print(f"{domain}: {len(rows)} requests, log loss {loss:.3f}, ECE of the likeliest object {ece:.3f}")
        for least in np.arange(0.6, 0.96, 0.05).round(2):
            acts = best >= least
            good, bad = int((acts & right).sum()), int((acts & ~right).sum())
            print(f"  acting from {least}: {good} right, {bad} wrong")
        for family in dict.fromkeys(c.family for c, _ in rows):
            some, acts = np.array([c.family == family for c, _ in rows]), best >= ACTED
            n, first, good, bad = (
                int((some & each).sum()) for each in (some, right, acts & right, acts & ~right)
            )
            print(f"    {family}: {good} of {n} right, {bad} wrong; {first} come first")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenes", type=int, default=150)
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    description.KEPT = 10 * asked.scenes  # all of them
    pictures = [*simulated_pictures(asked.scenes), *photographs()]
    usual = usual_classes(pictures)
    order = np.random.default_rng(5).permutation(len(pictures))
    fold = {pictures[k].name: int(n % FOLDS) for n, k in enumerate(order)}
    by_others = [fit_shapes([each for each in pictures if fold[each.name] != n], usual) for n in range(FOLDS)]
    cases: list[Case] = []
    for picture in pictures:
        picture.describe_by(usual, by_others[fold[picture.name]])
        cases += filter(None, (make_case(picture, *each) for each in picture.asked))
    report_shapes(pictures, usual, [by_others[fold[each.name]] for each in pictures])
    ends = np.array([[each[name] for name in WEIGHTS] for each in fitted_weights()])
    everything = list(range(len(cases)))
    for _ in range(ROUNDS):
        linear = Linear(cases, ends)
        ends = linear.fit(everything)
    held: list[np.ndarray] = [np.zeros(0)] * len(cases)
    for part in range(FOLDS):
        other = linear.fit([k for k in everything if fold[cases[k].group] != part])
        for k in everything:
            if fold[cases[k].group] == part:
                held[k] = linear.log_p(k, other)
    report(cases, held)
    found = dict(zip(WEIGHTS, ends.T.round(3).tolist(), strict=True))
    print(found)
    if asked.write:
        lines = ",\n".join(f' "{name}": {each}' for name, each in found.items())
        FILE.write_text("{\n" + lines + "\n}\n")
        shapes = fit_shapes(pictures, usual)
        parts = {key: getattr(shapes, key).round(3).tolist() for key in ("own", "base", "shared")}
        SHAPES_FILE.write_text(json.dumps(parts) + "\n")
        USUAL_FILE.write_text(json.dumps([float(f"{each:.2g}") for each in usual]) + "\n")


if __name__ == "__main__":
    main()
