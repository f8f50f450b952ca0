import numpy as np
import pytest

from cpor.data.folder_files import encode_png
from cpor.data.scene_folder import read_scene_folder
from cpor.decision import Defer
from cpor.model import FittedModel, bundled_model
from cpor.relations import ObstructionPosterior
from cpor.serve.api.deciding import answer_decide
from cpor.serve.api.example_scenes import FOLDER
from cpor.serve.api.messages import DecideRequest
from cpor.serve.api.promising import least_promised_score, reason_not_promised, say_by_rate


@pytest.mark.parametrize("kind", ["embedded", "geometry"])
def test_from_the_promised_score_on_both_kinds_of_action_are_taken(kind):
    pipeline = FittedModel.load(bundled_model(kind)).pipeline()
    least = least_promised_score(pipeline)
    assert pipeline.tau_success is not None and 0.0 < least < 1.0

    def taken(score):
        return [
            pipeline.rate.apply(np.array([score]), is_target=np.array([grasps]))[0] > pipeline.tau_success
            for grasps in (True, False)
        ]

    assert all(all(taken(score)) for score in np.linspace(least, 1.0, 100))
    assert not any(all(taken(score)) for score in np.linspace(0.0, least - 1e-9, 100))


def test_a_score_that_is_promised_itself_is_the_threshold():
    model = FittedModel.load(bundled_model("geometry")).model_copy(update={"rate": None})
    assert least_promised_score(model.pipeline()) == model.promise.tau


def test_the_page_s_way_acts_above_the_promised_score_only_where_the_promise_does(client):
    """Without tau the model's own threshold decides; with tau = promised_above, relations alone."""
    model = FittedModel.load(bundled_model("embedded"))
    pipeline = model.pipeline()
    differ = 0
    for example in client.examples():
        seen = client.look_at_example(example.name)
        assert seen.tau == 0.5 and seen.promised_above == least_promised_score(pipeline)
        assert sum("is promised" in note for note in seen.notes) == 1
        ids = [o.id for o in seen.objects]
        for target in ids:
            asked = {"objects": ids, "target": target, "relations": seen.relations, "graphs": 0}
            page = answer_decide(DecideRequest(**asked, tau=seen.promised_above), None)
            triples = [(r.blocked, r.blocker, r.p) for r in seen.relations]
            posterior = ObstructionPosterior.from_relations(ids, target, triples)
            promised = pipeline.decide(posterior)
            best = max(promised.scores.values())
            if best > seen.promised_above:
                assert page.action.object == promised.action.obj
            else:
                assert page.action.type == "defer"
                differ += not isinstance(promised.action, Defer)
            words = say_by_rate(posterior, promised, pipeline)
            assert "of the time; it acts above" in words
    assert differ <= 3  # only what is removed between the two thresholds


@pytest.mark.parametrize("name", ["loose-bin", "full-bin"])
def test_a_decision_from_a_picture_says_by_which_threshold(client, name):
    frame = read_scene_folder(FOLDER / name).observation
    model = FittedModel.load(bundled_model("embedded"))
    reply = client.decide_rgbd(frame, target=3)
    assert reply.decision.tau is None and reply.tau_success == model.promise.tau
    assert "it acts above" in reply.decision.why
    page = client.decide(
        DecideRequest(
            objects=[o.id for o in reply.scene.objects],
            target=3,
            relations=reply.scene.relations,
            tau=reply.scene.promised_above,
        )
    )
    assert {s.object: s.score for s in page.scores} == pytest.approx(
        {s.object: s.score for s in reply.decision.scores}
    )
    assert page.action.type == reply.decision.action.type
    given = client.decide_rgbd(frame, target=3, tau=0.4)
    assert (given.decision.tau, given.tau_success) == (0.4, None)
    assert given.scene.promised_above == reply.scene.promised_above


def test_nothing_is_promised_of_masks_or_sizes_it_was_not_tested_with(client):
    scene = read_scene_folder(FOLDER / "loose-bin")
    seen = client.look_at_example("loose-bin", masks="given")
    assert seen.promised_above is None
    assert any(note.startswith("No error rate is promised") for note in seen.notes)
    frame = scene.observation
    factor = 2
    while frame.rgb.shape[0] * frame.rgb.shape[1] * factor**2 <= 2_500_000:
        factor += 1
    big = encode_png(np.repeat(np.repeat(frame.rgb, factor, 0), factor, 1))
    steps = np.nan_to_num(1e3 * frame.depth).astype(np.uint16)
    depth = encode_png(np.repeat(np.repeat(steps, factor, 0), factor, 1))
    reply = client.decide_rgbd(big, depth=depth, target=1)
    assert "analysed at 1/" in reply.promise and reply.promise.startswith("No error rate is promised")
    assert reply.scene.promised_above is None


def test_the_reason_is_the_model_s_own_first():
    model = FittedModel.load(bundled_model("geometry"))
    scene = read_scene_folder(FOLDER / "loose-bin")
    assert reason_not_promised(model, scene, "given", 1) is None
    assert "full size" in reason_not_promised(model, scene, "given", 3)
    assert "masks" in reason_not_promised(model, scene, "somebody", 3)
