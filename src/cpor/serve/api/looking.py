"""From an uploaded picture to beliefs about every pair, and to a decision: what the looking workers do."""

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from cpor.errors import InvalidSettingError, TooLargeError
from cpor.evidence import PairState
from cpor.model import FittedModel, bundled_model
from cpor.perception.choice import GIVEN, segmenter_name
from cpor.perception.grounding import Found, Grounding, ground
from cpor.perception.mask_files import GivenMasks
from cpor.perception.network_file import MissingExtraError
from cpor.perception.onnx_segmenter import OnnxSegmenter
from cpor.perception.registry import DEFAULT
from cpor.pipeline import PairBeliefs, Pipeline
from cpor.reading import DecideSettings, Question, Request, notes_on
from cpor.scene import DetectedObject, MaskCrop, Observation, PixelPoint, Scene
from cpor.semantics.crops import near_pairs
from cpor.semantics.embedded import EmbeddedScorer
from cpor.serve.api.deciding import describe_decision, list_graphs
from cpor.serve.api.describing import describe_grounding, describe_objects
from cpor.serve.api.messages import (
    MOST_RELATIONS,
    DecideReply,
    EvidenceMessage,
    RelationMessage,
    SceneReply,
    SeenDecideReply,
)
from cpor.serve.api.promising import least_promised_score, reason_not_promised, say_by_rate, say_need
from cpor.serve.http.uploads import Received, Upload, UploadLimits, read_upload

_GRAPHS = 3
"""How many of the likeliest graphs a decision from a picture lists."""

_PLAIN_TAU = 0.5
"""Where a model acts by success rates, which only the whole pipeline knows, the page begins here.

`SceneReply.promised_above` says where the promised policy begins.
"""

_DESCRIBING_S = 1.0
"""Time for the likeliest graphs and posteriors of relations; the decision itself has no deadline, since the
promise was tested without one: its work is counted instead. [s]"""


@dataclass(frozen=True, eq=False)
class KeptScene:
    """A scene that can be asked about later; `shrunk` as in `Received`."""

    scene: Scene
    shrunk: int

    @property
    def n_bytes(self) -> int:
        """Memory of its arrays."""
        seen = self.scene.observation
        arrays = [seen.rgb, seen.depth, self.scene.visible_ids]
        arrays += [o.amodal.pixels for o in self.scene.objects if o.amodal is not None]
        return sum(array.nbytes for array in arrays if array is not None)

    def ground(self, request: Request) -> Grounding:
        """Which object is meant; points are pixels of the picture as it came."""
        point = request.point
        if point is not None:
            point = PixelPoint(point.x / self.shrunk, point.y / self.shrunk)
        return ground(self.scene, request.target, point, request.words)


@dataclass(frozen=True, eq=False)
class Seen:
    """What looking at an upload gives: the reply, without an id yet, and what to keep."""

    reply: SceneReply
    kept: KeptScene


@dataclass(frozen=True, eq=False)
class SeenAndDecided:
    """The same with a decision."""

    reply: SeenDecideReply
    kept: KeptScene


@dataclass(frozen=True, eq=False)
class _View:
    """An upload on its way: what was received, what was found in it, and what is believed of it."""

    received: Received
    scene: Scene
    masks: str
    model: FittedModel
    pipeline: Pipeline
    beliefs: PairBeliefs
    times_ms: dict[str, float]

    @cached_property
    def reason_not_promised(self) -> str | None:
        """Why nothing is promised of decisions by the model's own thresholds; None where it is."""
        return reason_not_promised(self.model, self.scene, self.masks, self.received.shrunk)

    @cached_property
    def promised_above(self) -> float | None:
        """As `SceneReply` has it; the relations it lists decide alone only where nothing is conditioned."""
        if self.reason_not_promised is not None or self.model.condition is not None:
            return None
        return least_promised_score(self.model.pipeline())


@dataclass(frozen=True)
class Looker:
    """Our networks and the models fitted to what they give; the networks are read when first used.

    Attributes:
        embedded: For relations scored by our scorer.
        geometry: For masks and depth alone.
        segmenter: Finds objects where no masks are given.
        scorer: Scores relations.
    """

    embedded: FittedModel
    geometry: FittedModel
    segmenter: OnnxSegmenter
    scorer: EmbeddedScorer

    @classmethod
    def load(cls) -> "Looker":
        """With what comes with the package, everything read and compiled, so that no caller waits for it."""
        looker = cls(
            FittedModel.load(bundled_model("embedded")),
            FittedModel.load(bundled_model("geometry")),
            OnnxSegmenter(),
            EmbeddedScorer(),
        )
        ids = np.zeros((48, 64), np.int32)
        ids[8:40, 8:32], ids[8:40, 32:56] = 1, 2
        objects = tuple(DetectedObject(k, MaskCrop.from_mask(ids == k)) for k in (1, 2))
        frame = Observation(np.full((48, 64, 3), 99, np.uint8), np.full((48, 64), 0.8, np.float32))
        with suppress(MissingExtraError):  # masks that are given can still be decided on
            looker.segmenter.segment(frame)
        received = Received(Scene(frame, objects, ids), 1, (64, 48))
        view = looker._view(received, None, {})
        looker._decide(view, Found(1))
        _describe_scene(view)
        return looker

    def look(self, upload: Upload, limits: UploadLimits) -> Seen:
        """Read an upload, find its objects, and say what is believed of every pair."""
        view = self._read(upload, limits, None)
        return Seen(_describe_scene(view), KeptScene(view.scene, view.received.shrunk))

    def decide(
        self, upload: Upload, limits: UploadLimits, request: Request, tau: float | None
    ) -> SeenAndDecided:
        """The same, and decide for the object asked for."""
        if sum(way is not None for way in (request.target, request.point, request.words)) != 1:
            raise InvalidSettingError("say which object in one way: target, point or request")
        view = self._read(upload, limits, tau)
        kept = KeptScene(view.scene, view.received.shrunk)
        meant = kept.ground(request)
        scene = _describe_scene(view)
        decided = self._decide(view, meant) if isinstance(meant, Found) else (None, None, None)
        reply = SeenDecideReply(
            scene=scene,
            meant=describe_grounding(meant),
            target=meant.id if isinstance(meant, Found) else None,
            decision=decided[0],
            p_success=decided[1],
            tau_success=view.pipeline.tau_success if isinstance(meant, Found) else None,
            promise=decided[2],
        )
        return SeenAndDecided(reply, kept)

    def _read(self, upload: Upload, limits: UploadLimits, tau: float | None) -> _View:
        start = time.perf_counter()
        received = read_upload(upload, limits)
        return self._view(received, tau, {"read": 1e3 * (time.perf_counter() - start)})

    def _view(self, received: Received, tau: float | None, times_ms: dict[str, float]) -> _View:
        given, masks = received.scene, GIVEN
        if given.visible_ids is None:
            scene, spent = self.segmenter.segment_with_times(given.observation)
            masks, times_ms = segmenter_name(self.segmenter, DEFAULT), times_ms | spent
        else:
            scene = GivenMasks(given).segment(given.observation)
        ticks = [time.perf_counter()]
        scene = self._score(scene)
        ticks.append(time.perf_counter())
        model = self.geometry if scene.semantic_scores is None else self.embedded
        pipeline = model.pipeline(tau)
        beliefs = pipeline.believe(scene)
        ticks.append(time.perf_counter())
        score, relate = (1e3 * np.diff(ticks)).tolist()
        times_ms = times_ms | {"score": score, "relate": relate}
        if (count := int(np.count_nonzero(beliefs.p_fused))) > MOST_RELATIONS:
            raise TooLargeError(
                f"{count} pairs of objects may obstruct each other; at most {MOST_RELATIONS} are decided on. "
                "Send fewer objects, or masks for all of them"
            )
        return _View(received, scene, masks, model, pipeline, beliefs, times_ms)

    def _score(self, scene: Scene) -> Scene:
        """The scene with what our scorer says of it; without, where onnxruntime is not installed."""
        pairs = near_pairs(scene)
        if len(pairs) > MOST_RELATIONS:
            raise TooLargeError(f"{len(pairs)} pairs of objects are near each other; send fewer objects")
        try:
            scored = self.scorer.score(scene, pairs)
        except MissingExtraError:
            return scene  # masks and depth decide alone, and the notes say so
        return replace(scene, semantic_scores=scored.semantic_scores())

    def _decide(self, view: _View, meant: Found) -> tuple[DecideReply, float | None, str]:
        """The decision, how often such actions succeed, and what is promised."""
        start = time.perf_counter()
        posterior = view.pipeline.posterior(view.beliefs, meant.id)
        question = Question(
            posterior, view.pipeline.tau, view.scene, view.pipeline, view.model, masks=view.masks
        )
        answer = question.answer(DecideSettings())
        decision = answer.decision
        times = {"decide": 1e3 * (time.perf_counter() - start)}
        until = time.perf_counter() + _DESCRIBING_S
        graphs, all_there = list_graphs(posterior, _GRAPHS, until)
        reply = describe_decision(posterior, decision, graphs, None, times, until=until, all_graphs=all_there)
        if view.pipeline.tau_success is not None:
            why = f"{reply.why} {say_by_rate(posterior, decision, view.pipeline)}".strip()
            reply = reply.model_copy(update={"tau": None, "why": why})
        promise = answer.promise_in_words
        if answer.promise is not None and view.reason_not_promised is not None:
            promise = f"No error rate is promised: {view.reason_not_promised}."
        return reply, answer.p_success, promise


def look(looker: Looker, upload: Upload, limits: UploadLimits) -> Seen:
    """`Looker.look` as a job for a worker."""
    return looker.look(upload, limits)


def look_and_decide(
    looker: Looker, upload: Upload, limits: UploadLimits, request: Request, tau: float | None
) -> SeenAndDecided:
    """`Looker.decide` as a job for a worker."""
    return looker.decide(upload, limits, request, tau)


def _describe_scene(view: _View) -> SceneReply:
    start = time.perf_counter()
    scene, beliefs, received = view.scene, view.beliefs, view.received
    objects = describe_objects(scene, received.shrunk)
    evidence = _describe_evidence(beliefs)
    notes = notes_on(scene)
    if view.masks != GIVEN:
        notes.insert(0, f"{len(objects)} objects found by the segmenter {view.masks}.")
    if received.shrunk > 1:
        notes.append(f"The picture is large: it was analysed at 1/{received.shrunk} of its size.")
    notes.append(say_need(view.model, view.promised_above, view.reason_not_promised))
    width, height = received.size
    times = view.times_ms | {"describe": 1e3 * (time.perf_counter() - start)}
    return SceneReply(
        scene_id="",
        width=width,
        height=height,
        has_depth=scene.observation.depth is not None,
        masks=view.masks,
        scorer=beliefs.scorer,
        objects=objects,
        evidence=evidence,
        relations=[RelationMessage(blocked=e.blocked, blocker=e.blocker, p=e.p) for e in evidence],
        tau=view.pipeline.tau if view.pipeline.tau_success is None else _PLAIN_TAU,
        promised_above=view.promised_above,
        notes=notes,
        times_ms={stage: round(value, 3) for stage, value in times.items()},
    )


def _describe_evidence(beliefs: PairBeliefs) -> list[EvidenceMessage]:
    """What each stage says of every pair that may obstruct."""
    geometry = beliefs.geometry
    messages = []
    for i, j in zip(*np.nonzero(beliefs.p_fused), strict=True):
        state = PairState(int(geometry.state[i, j]))
        messages.append(
            EvidenceMessage(
                blocked=beliefs.ids[i],
                blocker=beliefs.ids[j],
                state=state.name.lower(),
                hidden_overlap=_number(geometry.hidden_overlap[i, j]),
                clearance=_number(geometry.clearance[i, j]),
                depth_order=_number(geometry.depth_order[i, j]),
                reliability=_number(geometry.reliability[i, j]),
                p_geometry=_number(beliefs.p_geometry[i, j]),
                score_semantic=_number(beliefs.score_semantic[i, j]),
                p_semantic=_number(beliefs.p_semantic[i, j]),
                p=_number(beliefs.p_fused[i, j]),
            )
        )
    return messages


def _number(value: float) -> float | None:
    """NaN, which is no answer, as null."""
    return None if np.isnan(value) else float(value)
