"""A report as one HTML page that needs nothing else: tables, figures, a gallery of graphs, and the cases.

A case is a line that opens to its graph, relations, scores, decision and truth.
"""

from collections import Counter
from html import escape
from pathlib import Path

from cpor.io.whole_files import write_text
from cpor.paper.runs.record import CaseRecord
from cpor.paper.runs.report import Report, SummaryTable, edges_on_cycles, is_cyclic, summary_tables
from cpor.viz.card import say_graph
from cpor.viz.graph_drawing import draw_graph
from cpor.viz.page_parts import facts_list, html_table, whole_page
from cpor.viz.report_figures import report_figures

N_GALLERY = 24
N_DETAILS = 2000
"""Cases shown in full unless asked otherwise: about 10 MB, which browsers open at once."""

MOST_DRAWN = 60
"""Number of objects beyond which a graph is a list only: the drawing would be unreadable."""

FILTERS = ("wrong", "error", "deferred", "cyclic", "unjudged", "right")
"""What cases can be filtered by; `page.css` has a rule for each."""

_FIRST = FILTERS[:3]


def write_page(report: Report, path: Path, n_details: int = N_DETAILS) -> None:
    """Write the page, all of it or nothing, with so many cases in full, the telling ones first."""
    write_text(path, report_page(report, n_details))


def report_page(report: Report, n_details: int = N_DETAILS) -> str:
    """The page; the same run gives the same page."""
    listed = telling_first(report.records)[:n_details]
    parts = [
        '<a class="skip" href="#cases">Skip to the cases</a>',
        _head(report),
        '<main><h2 id="summary">Summary</h2><div class="tables">',
        *(_table(table) for table in summary_tables(report)),
        '</div><h2 id="figures">Figures</h2><div class="figures">',
        *(
            f"<figure><h3>{escape(title)}</h3>{svg}<figcaption>{escape(caption)}</figcaption></figure>"
            for title, caption, svg in report_figures(report.records)
        ),
        "</div>",
        _gallery(listed),
        _cases(report, listed),
        "</main>",
    ]
    return whole_page("CPOR-Grasp report", parts, "report")


def telling_first(records: tuple[CaseRecord, ...]) -> list[tuple[int, CaseRecord]]:
    """Cases with their numbers: wrong ones, errors, deferred ones, contradictory ones, then the rest."""

    def rank(entry: tuple[int, CaseRecord]) -> int:
        outcome = entry[1].outcome
        if outcome in _FIRST:
            return _FIRST.index(outcome)
        return len(_FIRST) if is_cyclic(entry[1]) else len(_FIRST) + 1

    return sorted(enumerate(records), key=rank)


def _head(report: Report) -> str:
    header = report.header
    settings = header.settings
    chosen = [
        (
            "dataset",
            f"{header.dataset.kind}, {header.dataset.n_items} items, {header.dataset.fingerprint[:16]}",
        ),
        ("tau", "the model's" if settings.tau is None and settings.model else f"{settings.tau or 0.5:g}"),
        ("method", settings.method),
        ("seed", str(settings.seed)),
        ("versions", ", ".join(f"{name} {number}" for name, number in header.versions.items())),
    ]
    if settings.tau == 0.0:
        chosen[1] = ("tau", "0: always act")
    if settings.model is not None:
        chosen.append(("model", settings.model[:16]))
    if settings.shift is not None:
        chosen.append(("prior shift", f"{settings.shift:g}"))
    links = "".join(
        f'<a href="#{name.lower()}">{name}</a>' for name in ("Summary", "Figures", "Gallery", "Cases")
    )
    return (
        f"<header><h1>What came of {len(report.records)} cases</h1><dl>{facts_list(chosen)}</dl>"
        f"<nav>{links}</nav></header>"
    )


def _table(table: SummaryTable) -> str:
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    return f'<div class="wide">{html_table(table.columns, table.rows, table.title)}{note}</div>'


def _gallery(listed: list[tuple[int, CaseRecord]]) -> str:
    cards = []
    for number, record in choose_gallery(listed):
        said = f"{record.case}: {say_decision(record)}"
        mark = f'<span class="mark {record.outcome}">{record.outcome}</span>'
        cards.append(
            f"<figure>{draw_graph(record)}<figcaption>{mark}"
            f'<a href="#case-{number}">{escape(said)}</a></figcaption></figure>'
        )
    if not cards:
        return '<h2 id="gallery">Gallery</h2><p class="note">No case has relations to draw.</p>'
    return f'<h2 id="gallery">Gallery</h2>{_LEGEND}<div class="gallery">{"".join(cards)}</div>'


_LEGEND = (
    '<p class="note legend"><span>An arrow points from an object to what may obstruct it; the thicker, the '
    "likelier.</span> <span>Double frame: the target. Filled: acted on. Green frame and ✓: right next.</span>"
    " <span>Green arrow: true. Red, dashed: on a cycle. Dotted: no answer. Pale box: does not matter to the "
    "target.</span></p>"
)


def choose_gallery(listed: list[tuple[int, CaseRecord]]) -> list[tuple[int, CaseRecord]]:
    """Some of each kind, in turn, the richest graphs that can still be read first; an image once."""
    kinds: dict[tuple[str, ...], list[tuple[int, CaseRecord]]] = {}
    for entry in listed:
        record = entry[1]
        if record.relations and len(record.objects) <= 12 and record.target is not None:
            kinds.setdefault(case_marks(record), []).append(entry)
    for entries in kinds.values():
        entries.sort(key=lambda entry: abs(len(entry[1].relations) - 6))
    chosen: list[tuple[int, CaseRecord]] = []
    images: set[str] = set()
    while any(kinds.values()) and len(chosen) < N_GALLERY:
        for entries in kinds.values():
            while entries and entries[0][1].group in images:
                entries.pop(0)
            if entries and len(chosen) < N_GALLERY:
                images.add(entries[0][1].group)
                chosen.append(entries.pop(0))
    return chosen


def _cases(report: Report, listed: list[tuple[int, CaseRecord]]) -> str:
    total = len(report.records)
    order = "wrong, without decision, deferred, contradictory"
    note = f"{len(listed)} of {total} cases, the telling ones first: {order}."
    if len(listed) < total:
        note += f" The other {total - len(listed)} are in the table that cpor report RUN --csv FILE writes."
    counts = Counter(mark for _, record in listed for mark in case_marks(record))
    buttons = '<input type="radio" name="show" id="show-all" checked>'
    buttons += '<label class="filter" for="show-all">all</label>'
    buttons += "".join(
        f'<input type="radio" name="show" id="show-{name}">'
        f'<label class="filter" for="show-{name}">{name} ({counts[name]})</label>'
        for name in FILTERS
        if counts[name]
    )
    cases = "\n".join(case_details(record, f"case-{number}") for number, record in listed)
    return (
        f'<h2 id="cases">Cases</h2><p class="note">{escape(note)}</p><div>{buttons}'
        f'<div class="cases">{cases}</div></div>'
    )


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
    return f"<dl>{facts_list(lines)}</dl>"


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
    said = (say_graph(graph, str) for graph in graphs)
    items = "".join(f"<li>{share}: {escape(relations)}</li>" for share, relations in said)
    return f"<p>Likeliest arrangements, with their share of the belief:</p><ol>{items}</ol>"
