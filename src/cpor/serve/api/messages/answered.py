"""What callers are told."""

from typing import Literal, TypeAlias

from cpor.decision import CertificateKind, DeferReason, Method
from cpor.serve.api.messages.asked import RelationMessage
from cpor.serve.api.messages.base import Message, Point, Probability, WireLabel


class ActionMessage(Message):
    """`grasp` or `remove` an object, or `defer` for a reason."""

    type: Literal["grasp", "remove", "defer"]
    object: WireLabel | None = None
    reason: DeferReason | None = None


class ScoreMessage(Message):
    """How likely acting on an object next is right; the exact value is proven to lie from `low` to `high`."""

    object: WireLabel
    score: Probability
    low: Probability
    high: Probability
    is_blocker: bool


class CertificateMessage(Message):
    """What is proven about the decision; as `cpor.Certificate`."""

    kind: CertificateKind
    certified: bool
    epsilon: float
    k: int | None
    exact: bool
    blockers_certified: bool


class EdgeMessage(Message):
    """A relation as it entered the decision.

    Attributes:
        p: What was given.
        p_posterior: Given that all relations together admit a removal order; null where unknown.
        in_cycle: Whether it lies on a cycle of candidate relations.
    """

    blocked: WireLabel
    blocker: WireLabel
    p: Probability | None
    p_posterior: Probability | None
    in_cycle: bool


class PairMessage(Message):
    """An ordered pair."""

    blocked: WireLabel
    blocker: WireLabel


class GraphMessage(Message):
    """One of the likeliest graphs; `share` is its posterior probability, null where out of reach."""

    share: Probability | None
    relations: list[PairMessage]


class DecideReply(Message):
    """A decision.

    Attributes:
        action: What to do.
        headline: The same in words.
        why: One or two sentences on it.
        proof: What the certificate says, in words, and what was left out because the time was up.
        scores: Of every object, the best first.
        certificate: What is proven.
        relations: What it was decided from.
        graphs: The likeliest ones; none where answers are missing, fewer where the time was up.
        method: Of inference.
        tau: The score above which it acts; null where a success rate decides instead.
        mu: Probability that independent relations contradict each other; null where unknown.
        times_ms: Time of each stage.
    """

    action: ActionMessage
    headline: str
    why: str
    proof: str
    scores: list[ScoreMessage]
    certificate: CertificateMessage
    relations: list[EdgeMessage]
    graphs: list[GraphMessage]
    method: Method
    tau: Probability | None
    mu: Probability | None
    times_ms: dict[str, float]


class EffectMessage(Message):
    """What one relation means for the decision; as `cpor.inference.explain.RelationEffect`.

    Attributes:
        words: Such as "If the box obstructed the mug with 62 % instead of 35 %: remove the box".
    """

    blocked: WireLabel
    blocker: WireLabel
    p: Probability
    assumed: bool
    p_posterior: Probability
    flips_at: Probability | None
    flips_to: ActionMessage | None
    if_true: ActionMessage
    if_false: ActionMessage
    value_of_asking: float
    words: str


class ExplainReply(Message):
    """Why, what would change it, and what to ask next."""

    decision: DecideReply
    effects: list[EffectMessage]
    ask_next: PairMessage | None
    not_examined: int


class PlanStepMessage(Message):
    """One removal; as `cpor.planning.plan.PlanStep`."""

    object: WireLabel
    p_valid: Probability
    p_valid_so_far: Probability
    p_needed: Probability


class PlanReply(Message):
    """A plan; `note` says why it begins otherwise than the single step, where it does."""

    target: WireLabel
    steps: list[PlanStepMessage]
    p_valid: Probability
    value: float
    value_of_asking: float
    ask: bool
    first_action: ActionMessage
    note: str | None


class ObjectMessage(Message):
    """One object of a picture.

    Attributes:
        name: What it is called, such as "red, round"; null where nobody said.
        point: A pixel well inside of what shows.
        box: Left, top, right and bottom of what shows, the last two exclusive.
        visible: Outlines of what shows, each a closed polygon.
        amodal: Outlines with the hidden part; empty where unknown.
        score: Confidence of the segmenter.
        occluded: Whether it says that part is hidden.
        hidden_share: Share of the whole that does not show; null where unknown.
    """

    id: int
    name: str | None
    point: Point | None
    box: tuple[int, int, int, int] | None
    visible: list[list[Point]]
    amodal: list[list[Point]]
    score: Probability | None
    occluded: bool | None
    hidden_share: Probability | None


class EvidenceMessage(Message):
    """What each stage says of one ordered pair; null is no answer.

    Attributes:
        state: `no_contact`, `candidate` or `unanswered`: `cpor.evidence.PairState` in lower case.
        hidden_overlap, clearance, depth_order: The geometric cues of eq. mask-support.
        reliability: Share of usable depth readings.
        p_geometry: From masks and depth, calibrated.
        score_semantic: Raw score of the vision model.
        p_semantic: The same, calibrated.
        p: Both fused: what decides.
    """

    blocked: int
    blocker: int
    state: str
    hidden_overlap: float | None
    clearance: float | None
    depth_order: float | None
    reliability: float | None
    p_geometry: Probability | None
    score_semantic: float | None
    p_semantic: Probability | None
    p: Probability | None


class SceneReply(Message):
    """What was seen in a picture, ready to be decided on for any target.

    Attributes:
        scene_id: Names the scene to `/v1/scenes/{scene_id}/ground` for a while.
        width, height: Of the picture.
        has_depth: Whether depth came with it.
        masks: Whose masks: `given`, or a segmenter's name.
        scorer: Who scored relations; null where geometry alone decides.
        objects: What was found, by id.
        evidence: Every pair that may obstruct.
        relations: The same as `DecideRequest` wants them.
        tau: The threshold to begin with.
        promised_above: The promised error rate is that of acting by success rates, as `/v1/decide/rgbd` does
            without `tau`. Every action whose score lies above this one is also taken then; below, only some
            or none are. null where nothing is promised of such a picture, its masks or its scorer.
        notes: What a person should know, in sentences.
        times_ms: Time of each stage.
    """

    scene_id: str
    width: int
    height: int
    has_depth: bool
    masks: str
    scorer: str | None
    objects: list[ObjectMessage]
    evidence: list[EvidenceMessage]
    relations: list[RelationMessage]
    tau: Probability
    promised_above: Probability | None
    notes: list[str]
    times_ms: dict[str, float]


class CandidateMessage(Message):
    """An object that may be meant, and how well it fits."""

    id: int
    fit: float


class GroundReply(Message):
    """Which object is meant: `found`, `ambiguous` (ask `question`) or `not_found`."""

    state: Literal["found", "ambiguous", "not_found"]
    id: int | None
    question: str | None
    candidates: list[CandidateMessage]
    unchecked: list[str]


class SeenDecideReply(Message):
    """Picture and request to decision in one call.

    Attributes:
        scene: What was seen.
        meant: Which object the request means.
        target: Its id; null where that is not clear.
        decision: null where it is not clear what is meant.
        p_success: How often actions with such a score succeed; null where unknown, or where it defers.
        tau_success: It acts only where `p_success` is above this; null where `decision.tau` decides.
        promise: The promised error rate in words, or why none is promised.
    """

    scene: SceneReply
    meant: GroundReply
    target: int | None
    decision: DecideReply | None
    p_success: Probability | None
    tau_success: Probability | None
    promise: str | None


class ExampleMessage(Message):
    """An example scene: its picture is at `/v1/examples/{name}/rgb.png`."""

    name: str
    title: str
    width: int
    height: int


ErrorCode: TypeAlias = Literal[
    "invalid",
    "too_large",
    "unsupported",
    "unauthorised",
    "not_found",
    "busy",
    "timeout",
    "conflict",
    "failed",
    "not_installed",
]


class ErrorReply(Message):
    """What went wrong and what to do about it; `code` is for programs."""

    code: ErrorCode
    message: str


class HealthReply(Message):
    """Alive, and what there is."""

    status: Literal["ok"]
    version: str
    perception: bool
    simulator: bool
