"""A cycle of a run as it goes over the wire, and its picture."""

from cpor.answer import Answer
from cpor.records.decision import record_action
from cpor.relations import ObstructionPosterior, Relation
from cpor.risk.modes import Mode
from cpor.robot.cycle import Cycle
from cpor.scene import BlockedBy
from cpor.serve.api.decide_jobs import describe_answer
from cpor.serve.api.messages import CycleMessage, DecideReply
from cpor.serve.api.object_outlines import describe_objects
from cpor.serve.live.pictures import encode_jpeg
from cpor.sim.dataset.verdict import Verdict
from cpor.viz.overlay import Marks, Window, draw_scene
from cpor.viz.words import OUTCOMES, namer, with_names


def draw_cycle(cycle: Cycle, window: Window) -> bytes:
    """The overlay picture of a cycle, of a part of the frame; a JPEG."""
    p_obstructs = {BlockedBy(b.blocked, b.blocker): b.p for b in cycle.beliefs}
    return encode_jpeg(draw_scene(cycle.scene, Marks(cycle.target, cycle.action, p_obstructs), window=window))


def describe_cycle(
    cycle: Cycle,
    picture: str,
    window: Window,
    mode: Mode,
    verdict: Verdict | None = None,
    done: bool = False,
) -> CycleMessage:
    """A cycle as it goes over the wire.

    Args:
        cycle: What was seen, decided and, where it is over, done.
        picture: Path of its picture.
        window: Part of the frame that it shows.
        mode: The risk setting of the run.
        verdict: What the truth says of its action.
        done: Whether it is over.
    """
    name = namer(cycle.scene)
    verdict = verdict if done else None
    return CycleMessage(
        index=cycle.index,
        moment="done" if done else "decided",
        picture=picture,
        window=window,
        objects=describe_objects(cycle.scene),
        target=cycle.target,
        retargeted=cycle.retargeted,
        decision=_describe_decision(cycle, mode),
        action=None if cycle.action is None else record_action(cycle.action),
        outcome=_say_outcome(cycle) if done else None,
        verdict=None if verdict is None else _say_verdict(verdict),
        right=None if verdict is None else not verdict.is_wrong,
        notes=[_sentence(with_names(note, name)) for note in cycle.notes],
        times_ms={step: round(1e3 * value, 1) for step, value in cycle.times_s.items()},
    )


def _describe_decision(cycle: Cycle, mode: Mode) -> DecideReply | None:
    if cycle.decision is None or cycle.target is None:
        return None
    relations = [Relation(b.blocked, b.blocker, b.p) for b in cycle.beliefs if b.p is None or b.p > 0.0]
    posterior = ObstructionPosterior.from_relations(cycle.scene.ids, cycle.target, relations)
    tau = cycle.decision.tau
    answer = Answer(cycle.decision, posterior, None, None, mode, tau, p_success=cycle.p_success)
    return DecideReply.model_validate(describe_answer(answer, 0, name=namer(cycle.scene)))


def _say_outcome(cycle: Cycle) -> str:
    outcome = cycle.outcome
    if outcome is None:
        return "Nothing was moved."
    said = with_names(outcome.detail, namer(cycle.scene))
    return f"{OUTCOMES[outcome.kind]}: {said}."


def _say_verdict(verdict: Verdict) -> str:
    if not verdict.is_wrong:
        return "In truth, which the robot does not see, this was right."
    return f"In truth, which the robot does not see, this was wrong: {verdict.because}."


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:].removesuffix('.')}."
