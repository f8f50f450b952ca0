"""A run as a story: one HTML page that needs nothing else, with a picture of every step.

Pictures are embedded; no script, no font, no other host. What the truth says of an action stands apart from
what the robot believed, and a run that failed says so in its first line.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path

from cpor.io.whole_files import write_text
from cpor.relations import Label
from cpor.robot.cycle import Cycle, Ended
from cpor.robot.run_folder import read_run
from cpor.scene import Scene
from cpor.sim.dataset.recognition import Verdict
from cpor.viz.overlay import Marks, Window, draw_scene, encode_picture, marks_of, window_around
from cpor.viz.page_parts import data_url, decision_html, image, whole_page
from cpor.viz.words import (
    ENDS,
    OUTCOMES,
    namer,
    names_in,
    say_certificate,
    say_step,
    say_success,
    sentence,
    with_names,
)


@dataclass(frozen=True, eq=False)
class Story:
    """What to tell.

    Attributes:
        request: What was asked for, as said: "the red mug".
        cycles: Every turn of the loop.
        ended: How it ended; None where the record stops in the middle.
        detail: The same as a sentence.
        final_scene: The last look; None if there was none.
        verdicts: What the truth says of the action of a cycle, by its index; empty if unknown.
        instead: What the truth says would have been right where nothing was done, by the cycle's index.
        facts: What else to list at the foot: seed, tier, counts.
        pointed: Whether a person pointed at the target.
        animation: A moving picture of the arm at work, as WebP; None where not recorded.
        still: One frame of it, for readers who disable motion.
        speed: How many times as fast as it was the animation plays.
    """

    request: str
    cycles: tuple[Cycle, ...]
    ended: Ended | None
    detail: str = ""
    final_scene: Scene | None = None
    verdicts: Mapping[int, Verdict] = field(default_factory=dict)
    instead: Mapping[int, str] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    pointed: bool = False
    animation: bytes | None = None
    still: bytes | None = None
    speed: float = 1.0


def story_of_run(folder: Path) -> Story:
    """The story of a recorded run, finished or not.

    Raises:
        InputFileError: The folder holds no run, or a damaged one.
    """
    run = read_run(folder)
    seen = [cycle for cycle in run.cycles if cycle.target is not None]
    # How it ended is about the object that was asked for last.
    last = next((cycle for cycle in reversed(seen) if cycle.retargeted), None)
    asked = last or next(iter(seen), None)
    request = "the target" if asked is None else namer(asked.scene)(asked.target)
    if asked is not None and last is None:
        request = asked.scene.request or request
    tried = [cycle for cycle in run.cycles if cycle.attempt != "none"]
    facts = {"cycles": str(len(run.cycles)), "actions": str(len(tried))}
    if changes := sum(cycle.retargeted for cycle in run.cycles):
        facts["asked for another object on the way"] = f"{changes} times" if changes > 1 else "once"
    detail = run.head.detail or ""
    return Story(request, run.cycles, run.ended, detail, run.final_scene, facts=facts)


def write_story(story: Story, path: Path) -> None:
    """Write the page, all of it or nothing."""
    write_text(path, story_page(story))


def story_page(story: Story) -> str:
    """The page; the same run gives the same page."""
    title = f"Fetching {story.request}"
    # An object that a note speaks of may be gone by then.
    names = {obj: name for cycle in story.cycles for obj, name in names_in(cycle.scene).items()}
    # One window for all steps, so that the eye can compare them.
    window = window_around(story.cycles[0].scene) if story.cycles else None
    steps, proven = [], ""
    for k, cycle in enumerate(story.cycles):
        said = "" if cycle.decision is None else say_certificate(cycle.decision)
        known = _truth(story.verdicts.get(cycle.index), story.instead.get(cycle.index))
        # What is proven is said once, and again where it changes.
        steps.append(
            _step(cycle, k + 1 < len(story.cycles), known, window, names, "" if said == proven else said)
        )
        proven = said
    return whole_page(
        title,
        [
            f"<header><h1>{escape(title)}</h1>{_banner(story)}{_asked(story)}</header><main>",
            *steps,
            _end(story, window),
            f"</main><footer>{_facts(story)}</footer>",
        ],
    )


def _banner(story: Story) -> str:
    good = story.ended == Ended.RETRIEVED
    said = (
        "not retrieved as far as the record goes: it stops here" if story.ended is None else ENDS[story.ended]
    )
    words = sentence(f"{story.request} was {said}")
    return f'<p class="banner {"good" if good else "bad"}">{"✓" if good else "✗"} {escape(words)}</p>'


def _asked(story: Story) -> str:
    """What the pictures and steps call the object that was asked for, where that is another name."""
    first = next((cycle for cycle in story.cycles if cycle.target is not None), None)
    if first is None or (called := namer(first.scene)(first.target or 0)) == story.request:
        return ""
    how = "It was pointed at; by" if story.pointed else "By"
    asked = sentence(f"{story.request} is what was asked for")
    named = f"{how} its colour and shape the robot calls it {called}, with a star ★ in every picture."
    return f"<p>{escape(f'{asked} {named}')}</p>"


def _facts(story: Story) -> str:
    rows = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in story.facts.items()
    )
    return f"<dl>{rows}</dl>" if rows else ""


def _step(
    cycle: Cycle,
    goes_on: bool,
    truth: str,
    window: Window | None,
    names: Mapping[Label, str],
    proven: str,
) -> str:
    name, decision, target = namer(cycle.scene), cycle.decision, cycle.target
    headline = "No decision" if cycle.action is None else say_step(cycle.action, name)
    picture = draw_scene(cycle.scene, marks_of(cycle), window=window)
    shown = image(encode_picture(picture), f"Before step {cycle.index + 1}: {headline}")
    parts = [f"<h2>{cycle.index + 1}. {escape(headline)}</h2>"]
    if decision is not None and target is not None:
        # The action may be another than the decision's, after attempts in vain; the notes say so.
        done = replace(decision, action=cycle.action) if cycle.action else decision
        parts.append(decision_html(done, target, name, say_success(cycle.p_success, done), proven))
    parts += [_outcome(cycle, goes_on), truth]
    notes = [with_names(note, namer(cycle.scene, names)) for note in cycle.notes]
    parts += [f'<p class="note">{escape(sentence(note))}</p>' for note in notes]
    return f'<section class="step"><figure>{shown}</figure><div>{"".join(parts)}</div></section>'


def _outcome(cycle: Cycle, goes_on: bool) -> str:
    outcome = cycle.outcome
    if outcome is None:
        began = cycle.attempt == "begun"
        words = "The robot was sent; the result is unknown." if began else "Nothing was moved."
        if goes_on and not began:
            words += " It took a new picture and decided again."
        style = "bad" if began else "neutral"
    else:
        took = f" It took {outcome.duration_s:.0f} s." if outcome.duration_s >= 0.5 else ""
        said = with_names(outcome.detail, namer(cycle.scene))
        words = f"{OUTCOMES[outcome.kind]}. {sentence(said)}{took}"
        style = "good" if outcome.kind == "done" else "bad"
    sign = {"good": "✓", "bad": "✗", "neutral": "-"}[style]
    return f'<p class="outcome {style}">{sign} {escape(words)}</p>'


def _truth(verdict: Verdict | None, instead: str | None) -> str:
    """Judgement of a step by the truth; empty if it is unknown."""
    if verdict is not None:
        said, mark = ("wrong", "bad") if verdict.is_wrong else ("right", "good")
        why = f": {verdict.because}" if verdict.because else ""
        told = f'this was <b class="{mark}">{said}</b>{escape(why)}'
    elif instead is not None:
        told = f"it would have been right to {escape(instead)}"
    else:
        return ""
    return f'<p class="truth">By the truth, which the robot does not see, {told}.</p>'


def _end(story: Story, window: Window | None) -> str:
    parts = ['<section class="end"><h2>How it ended</h2>']
    parts += [f"<p>{escape(sentence(story.detail))}</p>", '<div class="pictures">']
    if story.final_scene is not None:
        shown = encode_picture(draw_scene(story.final_scene, Marks(), window=window))
        left = image(shown, "The scene at the end")
        parts.append(f"<figure>{left}<figcaption>What is left.</figcaption></figure>")
    if story.animation is not None:
        moving = image(story.animation, "The arm at work")
        if story.still is not None:
            still = f'<source media="(prefers-reduced-motion: reduce)" srcset="{data_url(story.still)}">'
            moving = f"<picture>{still}{moving}</picture>"
        fast = f", {story.speed:.2g} times as fast as it was" if story.speed > 1.0 else ""
        parts.append(f"<figure>{moving}<figcaption>The arm at work{fast}.</figcaption></figure>")
    return "".join([*parts, "</div></section>"])
