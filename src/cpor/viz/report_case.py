"""One case on a report's page: a line that opens to its graph, relations, scores, decision and truth."""

from collections.abc import Iterable, Sequence
from html import escape

from cpor.paper.runs.record import CaseRecord
from cpor.paper.runs.report import edges_on_cycles, is_cyclic
from cpor.records import GraphRecord
from cpor.viz.graph_drawing import draw_graph

MOST_DRAWN = 60
"""Number of objects beyond which a graph is a list only: the drawing would be unreadable."""


def case_marks(record: CaseRecord) -> tuple[str, ...]:
    """What a case can be filtered by: its outcome, and whether its relations can contradict."""
    return (record.outcome, *(("cyclic",) if is_cyclic(record) else ()))


def say_decision(record: CaseRecord) -> str:
    """What was done, in words."""
    if record.decision is None:
        return "no decision"
    action = record.decision.action
    return f"defer ({action.reason})" if action.type == "defer" else f"{action.type} {action.object}"


def case_details(record: CaseRecord, anchor: str) -> str:
    """A case that opens; `anchor` lies inside, so that following a link to it opens it."""
    where = [record.case, *(f"image {record.image}" for _ in (1,) if record.image not in (None, record.case))]
    where += [record.tier] if record.tier is not None else []
    marks = case_marks(record)
    shown = "".join(f'<span class="mark {mark}">{mark}</span>' for mark in marks)
    asked = "" if record.target is None else f"asked for {record.target}: "
    return (
        f'<details class="case {" ".join(marks)}"><summary>{shown}<b>{escape(" · ".join(where))}</b> '
        f"{escape(asked + say_decision(record))}</summary>"
        f'<div class="inside" id="{anchor}">{_inside(record)}</div></details>'
    )


def _inside(record: CaseRecord) -> str:
    if record.target is None:
        return _error(record)
    drawn = len(record.objects) <= MOST_DRAWN
    graph = f"<figure>{draw_graph(record)}</figure>" if drawn else "<p>Too many objects to draw.</p>"
    return (
        f'{_error(record)}<div class="sides">{graph}<div>{_decision(record)}{_scores(record)}</div></div>'
        + (f"{_relations(record)}{_graphs(record)}")
    )


def _error(record: CaseRecord) -> str:
    if record.error is None:
        return ""
    said = escape(f"{record.error.type}: {record.error.message}")
    return f'<p class="said">No decision, which is not "free to grasp". {said}</p>'


def _decision(record: CaseRecord) -> str:
    decision, truth = record.decision, record.truth
    lines = []
    if decision is not None:
        proof = decision.certificate
        lines.append(("decision", f"{say_decision(record)}, tau {decision.tau:g}"))
        bound = "" if proof.exact else f", within {proof.epsilon:.3g} after {proof.k} graphs"
        lines.append(("certificate", f"{proof.kind}{bound} ({decision.method})"))
        if decision.mu is not None:
            lines.append(("contradiction (mu)", f"{decision.mu:.4f}"))
        if record.p_success is not None:
            lines.append(("success rate at this score", f"{record.p_success:.3f}"))
        if decision.blockers:
            lines.append(("blockers", ", ".join(str(label) for label in decision.blockers)))
    if truth is None:
        lines.append(("truth", "not known"))
    else:
        right = ", ".join(str(label) for label in truth.right) or "nothing: the truth contradicts itself"
        lines.append(("right next", right))
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in lines)
    return f"<dl>{rows}</dl>"


def _scores(record: CaseRecord) -> str:
    decision = record.decision
    if decision is None:
        return ""
    order = sorted(record.objects, key=lambda label: -decision.scores[str(label)])
    rows = []
    for label in order[:12]:
        verb = "grasp" if label == record.target else "remove"
        point = (decision.scores[str(label)],) * 2
        low, high = decision.score_ranges[str(label)] if decision.score_ranges else point
        number = f"{low:.4f}" if high - low < 5e-5 else f"{low:.4f} to {high:.4f}"
        right = "" if record.truth is None else "✓" if label in record.truth.right else ""
        rows.append((f"{verb} {label}", number, right))
    more = f"<p>{len(order) - 12} more with lower scores.</p>" if len(order) > 12 else ""
    return html_table(("action", "score", "right"), rows) + more


def _relations(record: CaseRecord) -> str:
    if not record.relations:
        return "<p>No candidate relation: nothing is believed to obstruct anything.</p>"
    cyclic = edges_on_cycles(record)
    known = None if record.truth is None else record.truth.relations
    true = {(pair.blocked, pair.blocker) for pair in known or ()}
    rows = [
        (
            str(relation.blocked),
            str(relation.blocker),
            "no answer" if relation.p is None else f"{relation.p:.4f}",
            "yes" if k in cyclic else "",
            "" if known is None else "✓" if (relation.blocked, relation.blocker) in true else "",
        )
        for k, relation in enumerate(record.relations)
    ]
    missed = true - {(relation.blocked, relation.blocker) for relation in record.relations}
    rows += [
        (str(blocked), str(blocker), "no candidate", "", "✓") for blocked, blocker in sorted(missed, key=str)
    ]
    return html_table(("blocked", "blocker", "probability", "on a cycle", "true"), rows)


def _graphs(record: CaseRecord) -> str:
    graphs = () if record.decision is None else record.decision.top_graphs
    if not graphs:
        return ""
    items = "".join(f"<li>{graph.share:.4f}: {escape(_say_graph(graph))}</li>" for graph in graphs)
    return f"<p>Likeliest arrangements, with their share of the belief:</p><ol>{items}</ol>"


def _say_graph(graph: GraphRecord) -> str:
    said = ", ".join(f"{pair.blocker} on {pair.blocked}" for pair in graph.relations)
    return said or "nothing obstructs anything"


def html_table(columns: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> str:
    """A table; the first cell of each row is its head."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in columns)
    body = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
