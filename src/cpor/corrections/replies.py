"""What a person replies to a question, or corrects unasked: yes, no, "1 on 7", "not 1 on 7", "not 3", "3".

Every surface uses this: the same replies to the same view lead to the same decision.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from cpor.answer import Answer
from cpor.decision import Defer
from cpor.errors import InvalidSettingError, list_labels
from cpor.infer.explain import explain
from cpor.pipeline import UNSEEN
from cpor.relations import Label
from cpor.words.grounding_answers import (
    PERHAPS,
    AmbiguousRequest,
    Found,
    NotFound,
    Request,
    say_objects,
    say_question,
)

MOST_REPLIES = 64
"""Most replies of one conversation: each is decided on anew."""

LONGEST_REPLY = 200

Relations: TypeAlias = Mapping[tuple[int, int], float | None]
"""What a person said of pairs, by `(blocked, blocker)`."""

Decides: TypeAlias = Callable[[Request, Relations], Answer]
"""Decides for a request, with what a person said of pairs."""

_PAIR = re.compile(r"(not\s+)?(.+?)\s+(?:on|obstructs|blocks|covers)\s+(.+)")
_YES, _NO = ("yes", "y"), ("no", "n")


@dataclass(frozen=True)
class OpenQuestion:
    """A question to a person, and what yes means.

    Attributes:
        question: The question.
        blocked, blocker: Yes says that `blocker` obstructs `blocked`; None where no pair is asked about.
        object: Yes says that this object is meant; None where several may be, or a pair is asked about.
    """

    question: str
    blocked: int | None = None
    blocker: int | None = None
    object: int | None = None


def next_question(answer: Answer) -> OpenQuestion | None:
    """What to ask a person next: which object is meant, or the pair whose answer helps a deferral most."""
    if answer.question is not None:
        only = answer.candidates[0].id if len(answer.candidates) == 1 else None
        return OpenQuestion(answer.question, object=only)
    if answer.posterior is None or not isinstance(answer.action, Defer) or answer.view is None:
        return None
    ask = explain(answer.posterior, answer.decision, k=0, prior=answer.prior, flips=False).ask_next
    pair = _first_unanswered(answer) if ask is None else (ask.blocked, ask.blocker)
    if pair is None or not all(isinstance(each, int) for each in pair):
        return None
    called = {o.id: o.title or "" for o in answer.view.scene.objects}
    blocked, blocker = (int(each) for each in pair)  # type: ignore[call-overload]
    above, below = (say_objects([each], called) for each in (blocker, blocked))
    return OpenQuestion(f"Does {above} obstruct {below}?", blocked, blocker)


def _first_unanswered(answer: Answer) -> tuple[Label, Label] | None:
    """The pair without an answer to ask about first: one of the target, else any; None: all have one."""
    assert answer.posterior is not None
    missing = [r for r in answer.posterior.relations() if r.p is None and r.blocker != UNSEEN]
    missing.sort(key=lambda r: r.blocked != answer.target)
    return (missing[0].blocked, missing[0].blocker) if missing else None


def decide_after(decides: Decides, request: Request, replies: Sequence[str]) -> Answer:
    """The decision after all replies; each is read as an answer to the question that stood before it.

    Raises:
        InvalidSettingError: A reply is no answer to the question before it, and no correction.
    """
    if len(replies) > MOST_REPLIES:
        raise InvalidSettingError(f"{len(replies)} replies; at most {MOST_REPLIES} are taken")
    said = _Said(request)
    answer = said.decide(decides)
    for reply in replies:
        said = said.after(reply, answer)
        answer = said.decide(decides)
    return answer


@dataclass(frozen=True)
class _Said:
    """What a person said so far: request, relations by `(blocked, blocker)`, objects not meant."""

    request: Request
    relations: Relations = field(default_factory=dict)
    not_meant: frozenset[int] = frozenset()

    def decide(self, decides: Decides) -> Answer:
        """Decide on all that was said."""
        answer = decides(self.request, self.relations)
        meant = answer.meant
        if isinstance(meant, AmbiguousRequest):
            possible = [each for each in meant.candidates if each.id not in self.not_meant]
            if len(possible) == len(meant.candidates):
                return answer
        elif isinstance(meant, Found) and meant.id in self.not_meant:
            fits = [each for each in meant.ranked if each.id not in self.not_meant]
            possible = [each for each in fits if each.fit >= PERHAPS]
        else:
            return answer
        refused = f"Not {list_labels(sorted(self.not_meant))}."
        again: AmbiguousRequest | NotFound = NotFound(refused, tuple(possible))
        if possible:
            which = say_objects([each.id for each in possible], answer.names)  # type: ignore[arg-type]
            asked = say_question(len(possible))
            again = AmbiguousRequest(tuple(possible), f"{refused} Do you mean {which}? {asked}")
        return replace(answer, decision=None, posterior=None, meant=again, promise=None, p_success=None)

    def after(self, reply: str, answer: Answer) -> "_Said":
        """What was said with one more reply, to the question of an answer."""
        text = " ".join(reply.lower().split()).rstrip(".!")
        if not text or len(text) > LONGEST_REPLY:
            raise InvalidSettingError(
                f"a reply has 1 to {LONGEST_REPLY} characters; this one has {len(text)}"
            )
        if text in _YES + _NO:
            return self._after_yes_or_no(text in _YES, answer)
        if pair := _PAIR.fullmatch(text):
            blocker, blocked = (_find(pair[k], answer) for k in (2, 3))
            if blocker is not None and blocked is not None:
                return self._relate(blocked, blocker, pair[1] is None)
        refused = text.removeprefix("not ")
        obj = _find(refused, answer)
        if obj is not None and refused != text:
            return replace(self, not_meant=self.not_meant | {obj})
        if obj is not None:
            return replace(self, request=Request(obj))
        if answer.question is not None and not pair:
            return replace(self, request=Request(words=reply))  # which object: described in other words
        raise InvalidSettingError(
            f'I do not understand the reply "{reply[:60]}". Say yes or no to the question, "1 on 7" or '
            '"not 1 on 7" for a pair, "3" or "not 3" for the object that is meant'
        )

    def _after_yes_or_no(self, yes: bool, answer: Answer) -> "_Said":
        question = next_question(answer)
        if question is not None and question.blocked is not None and question.blocker is not None:
            return self._relate(question.blocked, question.blocker, yes)
        if question is not None and question.object is not None:
            if yes:
                return replace(self, request=Request(question.object))
            return replace(self, not_meant=self.not_meant | {question.object})
        if question is not None and answer.candidates:
            which = list_labels([each.id for each in answer.candidates])
            raise InvalidSettingError(f"say which object is meant by its number: {which}")
        raise InvalidSettingError('no question is open; correct a pair with "1 on 7" or "not 1 on 7"')

    def _relate(self, blocked: int, blocker: int, holds: bool) -> "_Said":
        if blocked == blocker:
            raise InvalidSettingError(f"object {blocked} does not obstruct itself; name two objects")
        said = {**self.relations, (blocked, blocker): 1.0 if holds else 0.0}
        if holds:
            said[blocker, blocked] = 0.0  # two objects do not obstruct each other
        return replace(self, relations=said)


def _find(text: str, answer: Answer) -> int | None:
    """The object that a number or a whole name stands for."""
    text = text.removeprefix("the ").removeprefix("object ").strip()
    view = answer.view
    ids = () if view is None else view.scene.ids
    if text.isdecimal():
        if int(text) not in ids:
            raise InvalidSettingError(f"unknown object {text}; the scene has: {list_labels(ids)}")
        return int(text)
    called = [k for k, name in answer.names.items() if name.lower() == text]
    return called[0] if len(called) == 1 and isinstance(called[0], int) else None
