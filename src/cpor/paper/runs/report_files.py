"""A run as files for other programs: CSV and Parquet, a row a case; LaTeX, the summary tables."""

import csv
import importlib
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cpor.errors import InvalidSettingError
from cpor.io.whole_files import write_bytes, write_text
from cpor.paper.runs.record import CaseRecord
from cpor.paper.runs.report import Report, SummaryTable, is_certified, is_cyclic, summary_tables

_COLUMNS: Mapping[str, str] = {
    "item": "int64",
    "case": "string",
    "image": "string",
    "tier": "string",
    "target": "string",
    "n_objects": "int64",
    "n_relations": "int64",
    "n_unanswered": "int64",
    "n_reachable": "int64",
    "cyclic": "bool",
    "action": "string",
    "object": "string",
    "reason": "string",
    "outcome": "string",
    "best_object": "string",
    "best_score": "float64",
    "best_right": "bool",
    "certificate": "string",
    "certified": "bool",
    "epsilon": "float64",
    "k": "int64",
    "method": "string",
    "tau": "float64",
    "mu": "float64",
    "mu_target": "float64",
    "p_success": "float64",
    "right_objects": "string",
    "error_type": "string",
    "error": "string",
}
"""The columns and their types. Lists of labels are JSON; nothing is an empty cell, or null."""


def write_csv(report: Report, path: Path) -> None:
    """One row a case; an empty cell is nothing, booleans are true and false."""
    text = io.StringIO(newline="")
    table = csv.writer(text, lineterminator="\n")
    table.writerow(_COLUMNS)
    for record in report.records:
        table.writerow([_cell(value) for value in _row(record).values()])
    write_text(path, text.getvalue())


def _cell(value: object) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def write_parquet(report: Report, path: Path) -> None:
    """The same rows, typed.

    Raises:
        InvalidSettingError: pyarrow is not installed.
    """
    try:
        arrow: Any = importlib.import_module("pyarrow")
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise InvalidSettingError(
            "Parquet needs pyarrow; install it with: pip install 'cpor-grasp[viz]'"
        ) from None
    types = {
        "string": arrow.string(),
        "int64": arrow.int64(),
        "float64": arrow.float64(),
        "bool": arrow.bool_(),
    }
    schema = arrow.schema([(name, types[kind]) for name, kind in _COLUMNS.items()])
    rows = [_row(record) for record in report.records]
    sink = arrow.BufferOutputStream()
    parquet.write_table(arrow.Table.from_pylist(rows, schema=schema), sink)
    write_bytes(path, sink.getvalue().to_pybytes())


def write_latex(report: Report, path: Path) -> None:
    """The summary tables, for `booktabs`."""
    tables = "\n".join(_latex_table(table) for table in summary_tables(report))
    write_text(path, f"% Needs \\usepackage{{booktabs}}.\n{tables}")


def _row(record: CaseRecord) -> dict[str, object]:
    decision, best, truth, error = record.decision, record.best, record.truth, record.error
    row: dict[str, object] = {
        "item": record.item,
        "case": record.case,
        "image": record.image,
        "tier": record.tier,
        "target": _text(record.target),
        "n_objects": len(record.objects),
        "n_relations": len(record.relations),
        "n_unanswered": sum(relation.p is None for relation in record.relations),
        "n_reachable": record.n_reachable,
        "cyclic": is_cyclic(record),
        "action": record.action,
        "outcome": record.outcome,
        "certified": is_certified(record),
        "right_objects": None if truth is None else json.dumps(truth.right, ensure_ascii=False),
    }
    if decision is not None:
        proof = decision.certificate
        row |= {"object": _text(decision.action.object), "reason": decision.action.reason}
        row |= {"certificate": proof.kind, "epsilon": proof.epsilon, "k": proof.k}
        row |= {"method": decision.method, "tau": decision.tau, "p_success": record.p_success}
        row |= {"mu": decision.mu, "mu_target": decision.mu_target}
    if best is not None:
        row |= {"best_object": _text(best.object), "best_score": best.score, "best_right": best.right}
    if error is not None:
        row |= {"error_type": error.type, "error": error.message}
    return {name: row.get(name) for name in _COLUMNS}


def _text(label: object) -> str | None:
    return None if label is None else str(label)


_LATEX = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}"}
)


def _latex_table(table: SummaryTable) -> str:
    words = [all(not _is_number(row[k]) for row in table.rows) for k in range(len(table.columns))]
    columns = "".join("l" if k == 0 or is_words else "r" for k, is_words in enumerate(words))
    lines = [" & ".join(cell.translate(_LATEX) for cell in row) + r" \\" for row in table.rows]
    caption = f"{table.title}. {table.note}".strip()
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{caption.translate(_LATEX)}}}",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            " & ".join(name.translate(_LATEX) for name in table.columns) + r" \\",
            r"\midrule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def _is_number(cell: str) -> bool:
    return cell[:1].isdigit()
