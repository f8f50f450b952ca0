"""A run of the loop in a recording for the Rerun viewer, cycle by cycle along the timeline `cycle`."""

from cpor.robot.cycle import Cycle, Ended
from cpor.scene import BlockedBy
from cpor.sim.dataset.verdict import Verdict
from cpor.viz.overlay import Marks
from cpor.viz.rerun_file import RerunFile
from cpor.viz.rerun_scene import log_decision, log_scene
from cpor.viz.words import ENDS, OUTCOMES, namer, say_step, with_names


def log_cycle(file: RerunFile, cycle: Cycle, verdict: Verdict | None = None) -> None:
    """Log a cycle that is over.

    Args:
        file: Where to.
        cycle: What was seen, decided and done.
        verdict: Judgement of its action by the truth.
    """
    rr, name = file.rerun, namer(cycle.scene)
    file.at_cycle(cycle.index)
    p_obstructs = {BlockedBy(b.blocked, b.blocker): b.p for b in cycle.beliefs}
    marks = Marks(cycle.target, cycle.action, p_obstructs)
    log_scene(file, cycle.scene, marks)
    outcome = cycle.outcome
    came = "Nothing was moved." if outcome is None else f"{OUTCOMES[outcome.kind]}: {outcome.detail}."
    said = [with_names(each, name) for each in (came, *cycle.notes)]
    if verdict is not None:
        why = f": {verdict.because}" if verdict.because else ""
        said.append(f"In truth this was {'wrong' if verdict.is_wrong else 'right'}{why}.")
    if cycle.decision is None:
        for stale in ("decision/graph", "decision/scores"):
            file.clear(stale)
        headline = "No decision" if cycle.action is None else say_step(cycle.action, name)
        words = "\n\n".join([f"# {headline}", *said])
        file.log("decision/words", rr.TextDocument(words, media_type="text/markdown"))
    else:
        log_decision(file, cycle.scene, marks, cycle.decision, cycle.p_success, tuple(said))
    right = outcome is None or outcome.kind == "done"
    for sentence in said:
        file.log("log", rr.TextLog(sentence, level="INFO" if right else "WARN"))


def log_end(file: RerunFile, request: str, ended: Ended, detail: str) -> None:
    """Log how a run ended, with the last cycle.

    Args:
        file: Where to.
        request: What was asked for: "the red mug".
        ended: How it ended.
        detail: The same as a sentence.
    """
    words = f"{request[:1].upper()}{request[1:]} was {ENDS[ended]}: {detail}."
    level = "INFO" if ended == Ended.RETRIEVED else "WARN"
    file.log("log", file.rerun.TextLog(words, level=level))
