"""A request with a word that is not known is never acted on, whatever the other words say."""

from functools import cache
from pathlib import Path

from support.data import DATA
from support.sizes import sized
from words.test_grounding import forms, palette_scene

from cpor.io.scene_folder import read_scene_folder
from cpor.words.grounding import AmbiguousRequest, Found, NotFound, ground_words
from cpor.words.request_words import parse_request
from cpor.words.vocabulary import split_words

SIM = Path("examples/scenes/sim")
NOUNS = [
    *(
        "gizmo",
        "sprocket",
        "gasket",
        "trivet",
        "valve",
        "rivet",
        "chisel",
        "coin",
        "feather",
        "abacus",
        "loom",
    ),
    *("quern", "pick", "bin", "table", "picture", "pass", "will", "image", "scene", "pile"),
    *("widget", "doorknob", "spider", "gnome", "drawer", "hinge", "flange", "grommet", "buckle", "zipper"),
    *("thimble", "gearbox", "bellows", "magnet", "button", "anvil", "hourglass", "turnstile", "sextant"),
]
REQUESTS = [
    "the red {}",
    "the {} on the left",
    "hand me the biggest {}, please",
    "{} on the right",
    "a round {}",
]


def nameless(scene):
    """The scene as a segmenter gives it."""
    objects = tuple(type(o)(o.id, o.amodal) for o in scene.objects)
    return type(scene)(scene.observation, objects, scene.visible_ids)


@cache
def scenes():
    found = {"palette": palette_scene(), "forms": forms()}
    for name in ("scene_00000", "scene_00007"):
        named = read_scene_folder(SIM / name)
        found |= {name: named, f"{name} nameless": nameless(named)}
    for path in sorted((DATA / "osd_learn").glob("learn1*"))[:4]:
        found[path.name] = read_scene_folder(path)
    return found


def test_things_that_are_known_and_not_there_are_not_taken(evidence):
    """Nouns that the classifier knows, in scenes that show no such thing."""
    nouns = ("teapot", "keyboard", "hat", "shoe", "sock", "lamp", "camera", "phone", "kettle", "wallet")
    acted, names = [], list(scenes())
    for k, noun in enumerate(nouns):
        for step in range(sized(2, 5)):
            name = names[(k + step) % len(names)]
            words = REQUESTS[k % len(REQUESTS)].format(noun)
            if isinstance(ground_words(scenes()[name], words), Found):
                acted.append((name, words))
    evidence(
        "safe",
        f"10 known nouns of absent things, each on {sized(2, 5)} scenes",
        "0",
        f"{len(acted)} acted on",
    )
    assert not acted


def test_requests_with_an_unknown_noun_are_asked_back(evidence):
    assert len(NOUNS) == len(set(NOUNS)) == 40
    names, n, acted, n_scenes = list(scenes()), len(scenes()), [], sized(1, 3)
    for k, text in enumerate(NOUNS):
        (noun,) = parse_request(f"the {text}", frozenset()).wish.names  # it stays in the request
        words = REQUESTS[k % len(REQUESTS)].format(text)
        for step in (0, 3, 4)[:n_scenes]:
            name = names[(k + k // len(REQUESTS) + step) % n]
            scene = scenes()[name]
            if any(noun in split_words(o.name or "") for o in scene.objects):
                continue  # there the word is known
            answer = ground_words(scene, words)
            if isinstance(answer, Found):
                acted.append((name, words))
                continue
            said = answer.question if isinstance(answer, AmbiguousRequest) else answer.reason
            assert f'"{noun}"' in said, (name, words, said)
            named = all(o.name for o in scene.objects)
            assert isinstance(answer, NotFound) or (not named and answer.candidates), (name, words)
    evidence(
        "safe", f"40 requests with an unknown noun, each on {n_scenes} scenes", "0", f"{len(acted)} acted on"
    )
    assert not acted
