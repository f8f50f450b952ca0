"""A promise hangs on what this process made, or made again alike: nobody's word is enough."""

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest

from cpor.fitting.labelled import drop_objects
from cpor.io.scene_folder import read_scene_folder, write_scene_folder
from cpor.model import FittedModel, TestedWith, bundled_model
from cpor.perception.onnx_segmenter import OnnxSegmenter
from cpor.scene import Observation, Scene, SemanticScores
from cpor.semantics.embedded import EmbeddedScorer
from cpor.sources import describe_sources, fingerprint
from cpor.system import System

FULL = Path(__file__).parents[1] / "src" / "cpor" / "serve" / "examples" / "full-bin"


@dataclass(frozen=True)
class Claiming:
    """Hands out masks and says that our segmenter made them."""

    scene: Scene
    fingerprint: str

    def segment(self, observation: Observation) -> Scene:
        """The same masks, whatever the frame shows."""
        return replace(self.scene, observation=observation)


class Dropping(OnnxSegmenter):
    """Our network with the last object left out, under our name."""

    def segment(self, observation: Observation) -> Scene:
        """All but one."""
        found = super().segment(observation)
        return drop_objects(found, found.ids[-1:])


@cache
def as_tested() -> FittedModel:
    """A model that was tested with our networks as they are, on any scenes."""
    model = FittedModel.load(bundled_model("embedded"))
    makers = TestedWith(segmenter=OnnxSegmenter().fingerprint, scorer=EmbeddedScorer().fingerprint)
    update = {"tested_with": makers, "geometry_weights": fingerprint(model.pipeline().measure)}
    for part in ("reference", "setup"):
        update[part] = {name: [-1e6, 1e6, None] for name in getattr(model, part)}
    return model.model_copy(update=update).sealed()


@pytest.fixture(scope="module")
def made() -> Scene:
    """A frame as our networks see it, promised, with the record that `cpor perceive` writes."""
    system = System(model=as_tested())
    view = system.look(read_scene_folder(FULL).observation)
    assert system.outlook(view).promise is not None
    believed = system.believe(view)
    return replace(view.scene, semantic_scores=believed.semantic, sources=believed.sources)


def rewritten(scene: Scene) -> Scene:
    """The scene with a record that fits it and says that our networks made all of it."""
    makers = fingerprint(OnnxSegmenter()), fingerprint(EmbeddedScorer())
    return replace(scene, sources=describe_sources(scene, *makers))


def outlook(folder: Path, scene: Scene):
    """What holds for a scene that is read from a folder."""
    write_scene_folder(scene, folder)
    system = System(model=as_tested())
    return system.outlook(system.look(folder))


@pytest.mark.parametrize("edit", ["dropped", "scores"])
def test_a_record_that_somebody_wrote_earns_no_promise(made, edit, tmp_path):
    assert made.semantic_scores is not None
    changed = drop_objects(made, made.ids[-1:])
    if edit == "scores":
        free = dict.fromkeys(made.semantic_scores.scores, 0.0)
        changed = replace(made, semantic_scores=SemanticScores(free, made.semantic_scores.scorer))
    said = outlook(tmp_path / "scene", rewritten(changed))
    assert all(check.state == "pass" for check in said.checks if check.name.endswith("_source"))
    assert said.promise is None and "did not make the same again" in said.notes[-1]


def test_a_record_of_what_we_make_again_alike_keeps_the_promise(made, tmp_path):
    frame = read_scene_folder(FULL).observation
    assert outlook(tmp_path / "scene", replace(made, observation=frame)).promise is not None


@pytest.mark.parametrize("kind", ["stranger", "heir"])
def test_a_segmenter_that_says_that_it_is_ours_is_not(made, kind):
    ours = OnnxSegmenter().fingerprint
    theirs = Claiming(made, ours) if kind == "stranger" else Dropping()
    assert theirs.fingerprint == ours != fingerprint(theirs)
    system = System(theirs, model=as_tested())
    said = system.outlook(system.look(made.observation))
    assert said.promise is None and f"not of {__name__}." in said.notes[-1]
