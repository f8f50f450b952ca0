"""What a person replies to a question, or corrects unasked: yes, no, "1 on 7", "not 1 on 7", "not 3", "3".

Every surface uses this: the same replies to the same view lead to the same decision.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from cpor.answer import Answer
from cpor.errors import InvalidSettingError, list_labels
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

_PAIR = re.compile(r"(not\s+)?(.+?)\s+(?:on|obstructs|blocks|covers)\s+(.+)")
_YES, _NO = ("yes", "y"), ("no", "n")


@dataclass(frozen=True)
class Conversation:
    """What a person asked for and replied so far.

    Attributes:
        decides: Decides for a request, with what a person said of pairs.
        request: What is asked for.
        replies: All replies, in order.
        relations: What they say of pairs.
        not_meant: Objects that are not meant.
    """

    decides: Callable[[Request, Relations], Answer]
    request: Request
    replies: tuple[str, ...] = ()
    relations: Relations = field(default_factory=dict)
    not_meant: frozenset[int] = frozenset()

    def decide(self) -> Answer:
        """Decide on all that was said."""
        answer = replace(self.decides(self.request, self.relations), on_reply=self.tell)
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

    def tell(self, reply: str, answer: Answer) -> Answer:
        """Decide anew after a reply to an answer."""
        return self.after(reply, answer).decide()

    def after(self, reply: str, answer: Answer) -> "Conversation":
        """The conversation with one more reply, to the question of an answer."""
        text = " ".join(reply.lower().split()).rstrip(".!")
        if not text or len(text) > LONGEST_REPLY:
            raise InvalidSettingError(
                f"a reply has 1 to {LONGEST_REPLY} characters; this one has {len(text)}"
            )
        if len(self.replies) == MOST_REPLIES:
            raise InvalidSettingError(f"at most {MOST_REPLIES} replies are taken; begin a new request")
        said = replace(self, replies=(*self.replies, reply))
        if text in _YES + _NO:
            return said._after_yes_or_no(text in _YES, answer)
        if pair := _PAIR.fullmatch(text):
            blocker, blocked = (_find(pair[k], answer) for k in (2, 3))
            if blocker is not None and blocked is not None:
                return said._relate(blocked, blocker, pair[1] is None)
        refused = text.removeprefix("not ")
        obj = _find(refused, answer)
        if obj is not None and refused != text:
            return replace(said, not_meant=self.not_meant | {obj})
        if obj is not None:
            return replace(said, request=Request(obj))
        if answer.question is not None and not pair:
            return replace(said, request=Request(words=reply))  # which object: described in other words
        raise InvalidSettingError(
            f'I do not understand the reply "{reply[:60]}". Say yes or no to the question, "1 on 7" or '
            '"not 1 on 7" for a pair, "3" or "not 3" for the object that is meant'
        )

    def _after_yes_or_no(self, yes: bool, answer: Answer) -> "Conversation":
        question = answer.asks
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

    def _relate(self, blocked: int, blocker: int, holds: bool) -> "Conversation":
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
