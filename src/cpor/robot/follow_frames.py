"""One object through many frames without a robot: its id stays, and earlier looks count as evidence."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from cpor.answer import Answer, DecideSettings, View
from cpor.risk.modes import Mode
from cpor.robot.carry_over import Memory
from cpor.scene import PixelPoint
from cpor.sources import describe_sources
from cpor.system import System
from cpor.tracking.identity import SURE
from cpor.words.grounding_answers import NotFound


def follow(
    system: System,
    views: Iterable[View],
    target: int | None = None,
    *,
    point: PixelPoint | tuple[float, float] | None = None,
    request: str | None = None,
    mode: Mode | str | None = None,
    tau: float | None = None,
    settings: DecideSettings | None = None,
) -> Iterator[Answer]:
    """Decide in every frame for the object that was asked for in the first one in which it is clear.

    In a frame in which it is not seen, or may be another one, the answer is a question.

    Args:
        system: Who decides.
        views: What was seen in each frame, in order: `system.look(...)`.
        target: Its id in the first frame.
        point: A pixel that shows it in the first frame.
        request: What it looks like, in words.
        mode: The risk setting; None: the system's.
        tau: Act above this score instead.
        settings: How to decide.
    """
    memory, wanted = Memory(), None
    for number, seen in enumerate(views):
        if number == 0 and point is not None:
            seen = system.look_closer(seen, PixelPoint(*point))
        memory = memory.carry_to(seen.scene)
        assert memory.frame is not None
        made_here = seen.sources.made_here & memory.made_here
        made = describe_sources(memory.frame, seen.sources.segmenter, None, made_here)
        notes = (*seen.notes, *(f"{event[:1].upper()}{event[1:]}." for event in memory.events))
        view = replace(seen, seen=memory.frame, sources=made, notes=notes, carried=memory.pairs)
        if wanted is None:
            asked = (target, point, request) if number == 0 or request else (None, None, None)
            answer = system.decide(
                view, asked[0], point=asked[1], request=asked[2], mode=mode, tau=tau, settings=settings
            )
            wanted = answer.target if isinstance(answer.target, int) else None
            if wanted is not None and asked[1] is not None:
                memory = memory.trust(wanted, PixelPoint(*asked[1]))
        elif memory.known.get(wanted) is None or memory.known[wanted].p_same < SURE:
            gone = wanted not in memory.known
            why = f"Object {wanted} {'is not seen' if gone else 'may be another one'} in frame {number}."
            answer = Answer(None, None, view, NotFound(why), None, tau, checks=view.checks, notes=notes)
        else:
            answer = system.decide(view, wanted, mode=mode, tau=tau, settings=settings)
        if view.believed is not None:
            memory = memory.learn(None, view.believed.beliefs)
        yield answer
