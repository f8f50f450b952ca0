"""A decision as a card in the terminal: what to do, how sure, why, and what would change it."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from cpor.decision import Action, Decision, Defer, Grasp
from cpor.errors import say_count
from cpor.infer.explain import Explanation, RelationEffect
from cpor.infer.graphs import GraphShare
from cpor.infer.policy import LISTING
from cpor.infer.robust import LARGEST_FACTOR
from cpor.pipeline import UNSEEN
from cpor.records import GraphRecord
from cpor.relations import Label
from cpor.viz.words import (
    NOBODY_SEGMENTED,
    NameOf,
    clean,
    ranked_scores,
    say_certificate,
    say_checks,
    say_likeliest,
    say_success,
)

if TYPE_CHECKING:
    from cpor.answer import Answer


def say_action(action: Action, name: NameOf = clean) -> str:
    """An action in words."""
    if isinstance(action, Defer):
        return "ask or look again"
    return f"{'grasp' if isinstance(action, Grasp) else 'remove'} {name(action.obj)}"


def decision_card(
    explanation: Explanation,
    p_success: float | None = None,
    notes: tuple[str, ...] = (),
    names: Mapping[Label, str] | None = None,
) -> Panel:
    """The card for one decision: `notes` a line each, `names` of objects by label."""
    name = _namer(explanation, names or {})
    decision = explanation.decision
    parts: list[RenderableType] = [
        Text(_reason(explanation, name)),
        Text(),
        score_table(decision, explanation.target, name, 10, LEAST_SHOWN),
        Text(),
    ]
    if success := say_success(p_success, decision):
        parts.append(Text(success))
    if unseen := _say_unseen(explanation):
        parts.append(Text(unseen))
    parts += [Text(note) for note in notes]
    parts.append(Text(_certificate(decision), style="dim"))
    if explanation.odds_factor is not None:
        parts.append(Text(_say_robust(explanation.odds_factor, decision), style="dim"))
    if explanation.graphs:
        parts += [Text(), Text("Likeliest arrangements", style="bold")]
        parts.append(_indent([say_graph(graph, name) for graph in explanation.graphs]))
    changes = changes_of(explanation)
    if changes:
        parts += [Text(), Text("What would change this", style="bold")]
        parts.append(_indent([("•", say_change(effect, name)) for effect in changes]))
    if (ask := explanation.ask_next) is not None:
        parts += [
            Text(),
            Text("Worth asking next", style="bold"),
            _indent([("•", say_question(ask, name))]),
        ]
    if explanation.not_examined:
        parts.append(
            Text(f"{explanation.not_examined} relations not examined: the scene is too large", style="dim")
        )
    return _panel(decision.action, name, parts)


def short_card(answer: "Answer", explanation: Explanation, question: str | None, ways: str = "") -> Panel:
    """The card in five lines: the action, why, the promise, one doubt, the next step with ways to reply."""
    names, decision = answer.names, explanation.decision
    name = _namer(explanation, names)
    lines = [_reason(explanation, name), _say_promise(answer)]
    lines += [_say_doubt(answer, explanation)]
    lines.append(say_next(decision.action, question, ways))
    return _panel(decision.action, name, [Text(line) for line in lines if line])


def say_next(action: Action, question: str | None, ways: str = "") -> str:
    """The next step: the question to answer, or what to do after the action."""
    if question is not None:
        return f"Question: {question} {ways}".rstrip()
    if isinstance(action, Defer):
        return "Next: look again, from another side if possible, or correct what it sees."
    what = "check that the target is out" if isinstance(action, Grasp) else "decide anew"
    return f"Next: act, then look again and {what}."


LEAST_SHOWN = 5e-4
"""Actions less likely than this have no row of their own."""

LEAST_DOUBT = 0.02
"""Probability of something unsegmented that is worth a line."""


def _say_promise(answer: "Answer") -> str:
    if answer.promise is not None and isinstance(answer.action, Defer):
        return ""
    if answer.promise is not None:
        wrong, sure = f"{answer.promise.alpha:.0%}", f"{answer.promise.confidence:.0%}"
        return f"Promised: at most {wrong} of such actions are wrong (confidence {sure})."
    return answer.notes[-1] if answer.notes else "No error rate is promised."


def _say_doubt(answer: "Answer", explanation: Explanation) -> str:
    """The weightiest doubt that the promise does not name already."""
    promised = _say_promise(answer)
    doubts = say_checks(check for check in answer.checks if check.says not in promised)
    return (
        next(iter(doubts), "")
        or _say_unseen(explanation, LEAST_DOUBT)
        or say_success(answer.p_success, explanation.decision)
    )


def _say_unseen(explanation: Explanation, least: float = 0.0) -> str:
    """How likely something without a mask obstructs the target; empty where that is below `least`."""
    if explanation.unseen is None:
        return ""
    low, high = explanation.decision.interval(explanation.unseen)
    if high > 0.99 and low < 0.01:
        return "What hides part of it was not segmented, or lies outside of the picture: that is not known."
    share = say_score(explanation.decision, explanation.unseen)
    return f"With probability {share} {NOBODY_SEGMENTED} is in its way." if high > least else ""


def _panel(action: Action, name: NameOf, parts: Sequence[RenderableType]) -> Panel:
    color = "yellow" if isinstance(action, Defer) else "green"
    verb, _, rest = say_action(action, name).partition(" ")
    title = Text(f" {verb.upper()} {rest} ", style=f"bold {color}")
    return Panel(Group(*parts), title=title, title_align="left", width=88)


def _namer(explanation: Explanation, names: Mapping[Label, str]) -> NameOf:
    def name(label: Label) -> str:
        if label == explanation.unseen and label is not None:
            return NOBODY_SEGMENTED
        return clean(f"{label} {names[label]}" if label in names else label)

    return name


def _reason(explanation: Explanation, name: NameOf) -> str:
    decision, target = explanation.decision, name(explanation.target)
    action = decision.action
    if isinstance(action, Defer):
        best = say_likeliest(decision, explanation.target, name, say_score, f"{decision.tau:.1%}")
        return f"Asked for {target}. Not acting: {decision.why_deferred}.{best}"
    score, kept = say_score(decision, action.obj), _say_kept(decision, action.obj)
    if isinstance(action, Grasp):
        return f"Asked for {target}. Nothing obstructs it with probability {score}.{kept}"
    return (
        f"Asked for {target}. With probability {score}, {name(action.obj)} is in its way, "
        f"directly or through others, and free to be taken.{kept}"
    )


def _say_kept(decision: Decision, label: Label) -> str:
    """What the likeliest graphs alone say, where that is acted on and not the lower end of the interval."""
    if decision.method not in LISTING or "%" not in say_score(decision, label).partition(" to ")[2]:
        return ""
    return (
        f" The {decision.certificate.k} likeliest arrangements give {decision.scores[label]:.1%}, and "
        f"--method {decision.method} acts on that."
    )


def _certificate(decision: Decision) -> str:
    act = f"Acts above tau = {decision.tau:.3g} (the mark)."
    if decision.unanswered_range is not None:
        if decision.certificate.epsilon >= 1.0:
            return f"{act} Too many answers are missing to try them all; the ranges are what is certain."
        return f"{act} The ranges cover every value that the missing answers could have."
    mu = "" if decision.mu is None else f" Belief discarded as contradictory: {decision.mu:.1%}."
    return f"{act} {say_certificate(decision)}{mu}"


def _say_robust(factor: float, decision: Decision) -> str:
    """How wrong the beliefs may be before the action's score falls to tau."""
    factors = (factor, math.exp(min(decision.radius or 0.0, math.log(LARGEST_FACTOR))))
    each, joint = (f"{f:.3g}" if f < LARGEST_FACTOR else f"{LARGEST_FACTOR:.0f} or more" for f in factors)
    return (
        f"Would still be above tau if the odds of every relation were off by a factor of {each}, or the odds "
        f"between any two arrangements by a factor of {joint}."
    )


def _indent(rows: list[tuple[str, str]]) -> Table:
    """Rows of a narrow and a wide column, wrapped under themselves."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(justify="right", min_width=3, no_wrap=True)
    grid.add_column()
    for mark, text in rows:
        grid.add_row(mark, Text(text))
    return grid


def say_graph(graph: GraphShare | GraphRecord, name: NameOf) -> tuple[str, str]:
    """The share of a graph, and its relations in words."""
    relations = ", ".join(f"{name(r.blocker)} on {name(r.blocked)}" for r in graph.relations)
    share = "?" if graph.share is None else f"{graph.share:.1%}"
    return share, relations or "nothing obstructs anything"


def changes_of(explanation: Explanation) -> list[RelationEffect]:
    """The relations that change the decision with the least change of their own."""
    return [effect for effect in explanation.relations if effect.flips_at is not None][:3]


def say_question(effect: RelationEffect, name: NameOf) -> str:
    """A relation as a question, what each answer leads to, and what the answer is worth."""
    points = round(100 * effect.value_of_asking)
    gain = say_count(points, "percentage point") if points else "less than one percentage point"
    return (
        f"does {name(effect.blocker)} obstruct {name(effect.blocked)}? If yes: "
        f"{say_action(effect.if_true, name)}. If no: {say_action(effect.if_false, name)}. "
        f"With the answer, the probability of a right decision grows by {gain}."
    )


def say_change(effect: RelationEffect, name: NameOf) -> str:
    """The probability of a relation at which the action changes, and the action then."""
    assert effect.flips_at is not None and effect.flips_to is not None
    side = "above" if effect.flips_at > effect.p else "below"
    at = f"{side} {effect.flips_at:.1%} (now {effect.p:.0%})"
    obstructs = f"{name(effect.blocker)} obstructs {name(effect.blocked)}"
    return f"{obstructs} {at}: {say_action(effect.flips_to, name)}"


_WIDTH = 24


def score_bar(low: float, high: float, tau: float) -> Text:
    """Filled up to what is sure, shaded up to what is possible, a mark at tau."""
    bar = Text()
    mark = min(int(tau * _WIDTH), _WIDTH - 1)
    for k in range(_WIDTH):
        at = (k + 0.5) / _WIDTH
        filled = "█" if at <= low else "▒" if at <= high else "·"
        bar.append("│" if k == mark and filled == "·" else filled, style="bold" if k == mark else "")
    return bar


def score_table(decision: Decision, target: Label, name: NameOf, most: int, least: float = 0.0) -> Table:
    """The actions, the likeliest first: the target starred, the choice marked, the least counted only."""
    table = Table(box=None, padding=(0, 1), show_header=True, header_style="dim")
    table.add_column("", no_wrap=True)
    table.add_column("action", min_width=10, overflow="fold")
    table.add_column("P(right)", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    chosen = None if isinstance(decision.action, Defer) else decision.action.obj
    ranked = [row for row in ranked_scores(decision, len(decision.scores)) if row[0] != UNSEEN]
    shown = [row for row in ranked if row[2] >= least][:most] or ranked[:1]
    for obj, low, high in shown:
        sign = ("▶" if obj == chosen else " ") + ("★" if obj == target else " ")
        verb = "grasp" if obj == target else "remove"
        words = Text(f"{verb} {name(obj)}", style="bold" if obj == chosen else "")
        table.add_row(sign, words, say_score(decision, obj), score_bar(low, high, decision.tau))
    if rest := len(ranked) - len(shown):
        table.add_row("", Text(f"… {rest} more", style="dim"), "", "")
    return table


def say_score(decision: Decision, obj: Label) -> str:
    """The score of an object; where that is not known exactly, the interval that is proven."""
    low, high = decision.interval(obj)
    return f"{decision.scores[obj]:.1%}" if high - low < 5e-4 else f"{low:.1%} to {high:.1%}"
