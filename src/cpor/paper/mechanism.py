"""What removal-order conditioning adds (Table cpor-ablation) and how much belief conflicts (Table mu)."""

from collections.abc import Mapping, Sequence

import numpy as np

from cpor.learn.reliability import summarise_reliability
from cpor.paper.cases import SolvedCases
from cpor.paper.decoding import threshold_objects
from cpor.paper.evaluate import TIERS, Means
from cpor.paper.paths import object_score
from cpor.paper.table import Figures, Table, paper_rows

NOT_RELEASED = "Needs raw and calibrated scores of the paper's model; only the fused ones were released."
FEWER = "The released log has 87 scenes with a possible cycle, the paper counts 140."


def object_f1(solved: SolvedCases, model: str) -> np.ndarray:
    """Object F1 of each case, marginals of a model thresholded as in the paper. Shape (n,)."""
    named = map(threshold_objects, solved.marginals(model))
    return np.array(
        [object_score(o, case.top_objects).f1 for o, case in zip(named, solved.cases, strict=True)]
    )


def ablation_table(decoded: Means, without_dag: float, earlier: Mapping[str, Figures]) -> Table:
    """Table cpor-ablation, panel A."""
    before = {"relation_f1": decoded.relation_f1, "object_f1": without_dag, "mp_ned": decoded.mp_ned}
    ours = {
        **earlier,
        "adaptive-platt + fusion + PM": before,
        "adaptive-platt + fusion + DAG + PM": before | {"object_f1": decoded.object_f1},
    }
    why = {"adaptive-platt + fusion + PM": "Marginals of the product model, thresholded at 0.5, give this."}
    notes = ("Relations and paths are read from the likeliest acyclic graph in both of the last rows.",)
    rows = paper_rows("cpor-ablation A", ours, why, NOT_RELEASED)
    return Table("cpor-ablation A", "Cumulative ablation", rows, notes)


def conflict_table(solved: SolvedCases) -> Table:
    """Table cpor-ablation, panel B: objects with and without acyclicity, where mu = 0 and where mu > 0."""
    label = solved.labels()
    ours: dict[str, Figures] = {}
    for group, inside in (("mu = 0", solved.exact.mu <= 0.0), ("mu > 0", solved.exact.mu > 0.0)):
        chosen = np.flatnonzero(inside).tolist()
        if not chosen:
            continue
        for name, model in (("product", "no_dag"), ("DAG", "dag")):
            scores = np.concatenate([solved.models[model][k] for k in chosen])
            found = summarise_reliability(scores, np.concatenate([label[k] for k in chosen]))
            f1 = float(object_f1(solved, model)[chosen].mean())
            ours[f"{group}, {name}"] = {
                "n": len(chosen),
                "object_f1": f1,
                "object_ece": found.ece,
                "object_auroc": found.auroc,
            }
    rows = paper_rows("cpor-ablation B", ours, dict.fromkeys(ours, FEWER), "No case of this group.")
    notes = ("ECE and AUROC over every object in a candidate relation and the target.",)
    return Table("cpor-ablation B", "Acyclicity where beliefs conflict", rows, notes)


def mu_by_tier(tier_of: Sequence[str | None], mu: np.ndarray) -> dict[str, Figures]:
    """Table mu by tier: scenes, scenes with mu > 0, mean mu, median and quartiles of those above 0.

    Args:
        tier_of: Tier of each case.
        mu: 0 where a case has no candidate relation. Shape (n,).
    """
    rows: dict[str, Figures] = {}
    for tier in (*TIERS["difficulty"], "Overall"):
        values = mu[[tier in ("Overall", each) for each in tier_of]]
        above = values[values > 0.0]
        spread = np.quantile(above, [0.5, 0.25, 0.75]).tolist() if above.size else [None] * 3
        rows[tier] = {
            "n": values.size,
            "positive": above.size,
            "mean": float(values.mean()) if values.size else 0.0,
            **dict(zip(("median", "quartile_1", "quartile_3"), spread, strict=True)),
        }
    return rows


def mu_table(rows: Mapping[str, Figures]) -> Table:
    """Table mu."""
    notes = (
        "Median and quartiles of the scenes with mu > 0. A case without a candidate relation has mu = 0.",
    )
    title = "Product-model mass outside graph support"
    return Table("mu", title, paper_rows("mu", rows, dict.fromkeys(rows, FEWER), ""), notes)
