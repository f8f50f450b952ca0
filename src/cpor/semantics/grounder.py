"""Which object the words of a request mean: a model says it where one can be asked, else our word judge.

Where a model gives no answer, nothing is guessed: our judge answers, and asks back what it does not know.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

from cpor.scene import PixelPoint, Scene
from cpor.semantics.scorer import Spent
from cpor.words.description import describe
from cpor.words.grounding import ground, ground_words, say_outside
from cpor.words.grounding_answers import (
    Candidate,
    Exchange,
    Found,
    Grounding,
    NotFound,
    say_objects,
    say_there,
    weigh,
)
from cpor.words.request_words import parse_request
from cpor.words.vocabulary import vocabulary

SURELY = 0.97
"""Where words are read with less probability, the notes tell it, and what else may be meant."""


@dataclass(frozen=True)
class WordsReply:
    """What was said to the question which objects some words mean.

    Attributes:
        fit: How well each object that was named fits, in [0, 1]; empty where none does; None: no answer.
        grounder: The grounder's name.
        text: The reply as it came; None where none did.
        problems: What went wrong, in words.
        spent: Calls, tokens and money it took.
    """

    fit: Mapping[int, float] | None
    grounder: str
    text: str | None = None
    problems: tuple[str, ...] = ()
    spent: Spent = field(default_factory=Spent)


@runtime_checkable
class Grounder(Protocol):
    """Can be asked which objects some words mean. A relation scorer may be one too; it need not."""

    def which_object(self, scene: Scene, words: str) -> WordsReply | None:
        """Ask.

        Returns:
            What was said: a failure is no answer, never a guess. None where it is not to be asked.
        """
        ...


@dataclass(frozen=True)
class ToldRequest:
    """Which object is meant, and what to know about how that was found out.

    Attributes:
        meant: The object, or what to ask.
        notes: In sentences; none where our own judge told as it always does.
    """

    meant: Grounding
    notes: tuple[str, ...] = ()


def ground_with(
    asked: object,
    scene: Scene,
    target: int | None = None,
    point: PixelPoint | None = None,
    words: str | None = None,
    before: Exchange | None = None,
) -> ToldRequest:
    """The object that is asked for, as `ground` finds it; words go to a `Grounder` where `asked` is one.

    Args:
        asked: What to ask, such as a relation scorer; None: only our word judge.
        scene: With masks or points.
        target: See `ground`, as for the next two.
        point: A pixel. [px]
        words: Where None too, the request the scene came with.
        before: What was said and done before; for our judge.

    Raises:
        InvalidSettingError: It is asked for in several ways.
        ScorerError: The grounder is not set up.
    """
    said = words if words is not None else scene.request
    by_words = target is None and point is None and said is not None
    # A number needs no model; and badges may carry other numbers than objects do.
    if (
        not (by_words and isinstance(asked, Grounder) and scene.objects)
        or parse_request(said or "", frozenset()).number is not None
    ):
        return _as_we_read(scene, said or "", ground(scene, target, point, words, before))
    reply = asked.which_object(scene, said or "")
    if reply is None:
        return _as_we_read(scene, said or "", ground(scene, target, point, words, before))
    if reply.fit is None:
        return _without_answer(scene, said or "", reply, before)
    note = f"{reply.grounder} was asked which object is meant.{_say_spent(reply)}"
    return ToldRequest(_weigh_reply(scene, said or "", reply.fit, reply.grounder), (note,))


def _as_we_read(scene: Scene, words: str, meant: Grounding) -> ToldRequest:
    """What our judge says, with a note on how sure it is."""
    if not isinstance(meant, Found):
        return ToldRequest(meant)
    called, said = {o.id: o.title or "" for o in scene.objects}, vocabulary().said
    obj, notes = say_objects([meant.id], called), []
    if meant.p is not None and meant.p < SURELY:
        others = [each for each in meant.ranked if each.id != meant.id]
        second = (
            said["runner_up"].format(obj=say_objects([others[0].id], called), p=others[0].fit)
            if others
            else ""
        )
        notes.append(said["read"].format(words=words, obj=obj, p=meant.p, second=second))
    return ToldRequest(meant, tuple(notes))


def _weigh_reply(scene: Scene, words: str, fit: Mapping[int, float], who: str) -> Grounding:
    """The rule for everybody; objects that were not named do not fit, and only the workspace counts."""
    full = {label: fit.get(label, 0.0) for label in scene.ids}
    inside = describe(scene).inside
    ranked = tuple(Candidate(k, full[k]) for k in sorted(full, key=lambda k: (-full[k], k not in inside, k)))
    called = {o.id: o.title or "" for o in scene.objects if o.id in inside}
    if not any(full.values()):
        return NotFound(f'{who} finds no object that fits "{words}". {say_there(called)}', ranked)
    if ranked[0].id not in inside:
        return NotFound(say_outside(ranked[0].id), ranked)
    meant = weigh(words, tuple(each for each in ranked if each.id in inside), called)
    if not isinstance(meant, Found):
        return meant
    # Fits of a model are no tested probabilities: what counts is their share, and nothing is promised.
    return replace(meant, p=full[meant.id] / sum(full.values()))


def _without_answer(scene: Scene, words: str, reply: WordsReply, before: Exchange | None) -> ToldRequest:
    """What our judge says; a word that it does not know is asked back."""
    why = f" ({reply.problems[-1]})" if reply.problems else ""
    no_answer = f"{reply.grounder} did not tell which object is meant{why}"
    ours = _as_we_read(scene, words, ground_words(scene, words, before))
    told = "Colours, shapes and names did." if isinstance(ours.meant, Found) else "So you are asked."
    return ToldRequest(ours.meant, (f"{no_answer}. {told}{_say_spent(reply)}", *ours.notes))


def _say_spent(reply: WordsReply) -> str:
    if reply.spent.calls:
        return f" Spent: {reply.spent.calls} calls, {reply.spent.tokens} tokens."
    return " The reply was remembered." if reply.spent.remembered else ""
