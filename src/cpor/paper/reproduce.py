"""Every published figure that a score log and the truth determine, computed anew."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from cpor.errors import one_of
from cpor.fitting import ReliabilityData
from cpor.learn.bootstrap import PairedComparison, compare_paired
from cpor.learn.reliability import reliability_bins
from cpor.paper.cases import SolvedCases, free_where_unknown, image_of, score_cases, solve_cases
from cpor.paper.decoding import SHIFT
from cpor.paper.evaluate import Evaluation, Missing, evaluate, fill_missing
from cpor.paper.expected import decode_expected
from cpor.paper.graph_structure import FIXED_K, TopKFigures, measure_topk, topk_table
from cpor.paper.mechanism import ablation_table, conflict_table, mu_by_tier, mu_table, object_f1
from cpor.paper.paired import forced_action, is_right
from cpor.paper.paths import Prediction
from cpor.paper.predictions import write_unograsp
from cpor.paper.selective import SelectiveRow, measure_selective, selective_table
from cpor.paper.table import Figures, Row, Table, paper_rows
from cpor.paper.unobench import FusedScores, UnobenchCase, read_fused_scores, read_truth

DecoderName: TypeAlias = Literal["paper", "expected"]

SEED = 0
"""Random seed of the bootstrap: the same files give the same intervals."""

OURS = "CPOR-Grasp, synthetic"
EXPECTED = "expected-score decoder (ours)"
BASELINES = "Needs the predictions of that model: `cpor evaluate` reads them. The authors released none."
REAL = "Needs the 838 real cases and their scores, which the authors did not release."
RELATIONS_WHY = (
    "Relations of the released log as they stand, before the decoding shift. The paper's figures do not "
    "come from this log."
)
OBJECTS_WHY = "Over every object in a candidate relation and the target; the paper does not say its pool."


class Reproduction(NamedTuple):
    """Everything `cpor reproduce` computes.

    Attributes:
        cases: The truth.
        shift: Edge prior that was taken out of every probability.
        missing: What cases without any candidate relation count as.
        decoders: Evaluation of each decoder's predictions.
        predictions: What each decoder predicts, by case index; cases without candidate are absent.
        pools: The log's rows as they stand; the marginals over every object in a candidate relation and the
            target; the chosen actions alone, which no certain zeros pad.
        topk: What truncations keep, by K and `adaptive`.
        mu: Table mu by tier.
        paired: Next actions of exact inference against No-DAG and Single-MAP.
        known: Cases with a candidate relation, solved.
        solved: The cases that count, solved; with `unobstructed` those without candidate too.
        selective: Selective execution by model, over `solved`.
    """

    cases: tuple[UnobenchCase, ...]
    shift: float
    missing: Missing
    decoders: Mapping[DecoderName, Evaluation]
    predictions: Mapping[DecoderName, Mapping[int, Prediction]]
    pools: tuple[ReliabilityData, ...]
    topk: Mapping[str, TopKFigures]
    mu: Mapping[str, Figures]
    paired: Mapping[str, PairedComparison]
    known: SolvedCases
    solved: SolvedCases
    selective: Mapping[str, SelectiveRow]

    def to_json(self) -> dict[str, Any]:
        """The keys that the command line promises; rates are fractions, null where there is none."""
        tiers = {tier: row for tier, row in self.mu.items() if tier != "Overall"}
        return {
            "shift": self.shift,
            "missing": {"counted_as": self.missing, "count": len(self.cases) - len(self.known.cases)},
            **self.decoders["paper"].to_json(),
            **{pool.name: asdict(pool.summary) for pool in self.pools},
            "structure": {
                "scenes": len(self.known.cases),
                "mean_dags": float(self.known.exact.n_graphs.mean()),
                "mu_positive": {tier: row["positive"] for tier, row in tiers.items()},
                "mu_mean": {tier: row["mean"] for tier, row in tiers.items()},
                "topk": {k: found._asdict() for k, found in self.topk.items()},
            },
            "paired": {name: asdict(found) for name, found in self.paired.items()},
            "decoders": {name: found.to_json() for name, found in self.decoders.items()},
            "tables": {table.label: table.to_json() for table in self.tables()},
        }

    def tables(self, earlier: Mapping[str, Figures] | None = None) -> tuple[Table, ...]:
        """The paper's tables that a log of fused scores determines, in the paper's order."""
        paper = self.decoders["paper"].overall
        without_dag = float(object_f1(self.solved, "no_dag").mean())
        return (
            *bench_tables(self.decoders, self.say_missing()),
            self._reliability_table(),
            diagram_table(self.pools[:2]),
            ablation_table(paper, without_dag, earlier or {}),
            conflict_table(self.solved),
            mu_table(self.mu),
            self._paired_table(),
            topk_table(self.topk, self.known.exact),
            selective_table(self.selective),
        )

    def say_missing(self) -> str:
        """What the cases without any candidate relation count as, and what that does to the figures."""
        n = len(self.cases)
        said = f"{n - len(self.known.cases)} of {n} cases have no candidate relation. "
        said += f"Here they count as {self.missing}."
        if self.missing != "unobstructed":
            said += (
                " The paper's tables count them as unobstructed: --missing unobstructed compares with them."
            )
        return said

    def _reliability_table(self) -> Table:
        names = ("relations, CPOR-Grasp", "objects, CPOR-Grasp", "chosen actions (ours)")
        ours: dict[str, Figures] = {
            name: {f: getattr(pool.summary, f) for f in ("ece", "brier", "nll", "auroc")}
            for name, pool in zip(names, self.pools, strict=True)
        }
        why = {"relations, CPOR-Grasp": RELATIONS_WHY, "objects, CPOR-Grasp": OBJECTS_WHY}
        missing = "Needs the scores of that model; the authors released none."
        return Table(
            "reliability-baselines",
            "Probability reliability",
            paper_rows("reliability-baselines", ours, why, missing),
        )

    def _paired_table(self) -> Table:
        ours: dict[str, Figures] = {
            name: {
                "corrections": found.corrections,
                "regressions": found.regressions,
                "delta": found.delta,
                "ci_low": found.ci.low,
                "ci_high": found.ci.high,
            }
            for name, found in self.paired.items()
        }
        why = {
            "no_dag": "The released log has few cycles, so acyclicity changes few of its decisions.",
            "map": "Counted over all cases of the released log by the rule of the text.",
        }
        notes = (
            "Exact inference against the same without acyclicity, and against the likeliest graph alone.",
        )
        return Table("paired", "Paired next actions", paper_rows("paired", ours, why, ""), notes)


def diagram_table(pools: Sequence[ReliabilityData]) -> Table:
    """Fig. reliability as numbers: the bins that hold anything."""
    rows = []
    for pool in pools:
        bins = reliability_bins(pool.p[~np.isnan(pool.p)], pool.label[~np.isnan(pool.p)])
        for k in np.flatnonzero(bins.count).tolist():
            name = f"{pool.name}, {bins.edge[k]:.1f} to {bins.edge[k + 1]:.1f}"
            figures = {"n": int(bins.count[k]), "mean": float(bins.p_mean[k]), "rate": float(bins.rate[k])}
            rows.append(Row(name, figures, {}))
    notes = ("Mean probability and observed rate of each bin. The paper draws them and prints no numbers.",)
    return Table("reliability", "Reliability diagrams", rows, notes)


def bench_tables(decoders: Mapping[DecoderName, Evaluation], note: str) -> tuple[Table, Table]:
    """Tables path-bench and obj-bench: the paper's decoder and ours beside the printed rows."""
    tables = []
    for label, title, level, ned in (
        ("path-bench", "Path-level reasoning", "relation", True),
        ("obj-bench", "Next objects", "object", False),
    ):
        ours: dict[str, Figures] = {}
        for decoder, found in decoders.items():
            name = OURS if decoder == "paper" else EXPECTED
            row: dict[str, float | None] = {}
            for tier, means in {**found.tiers, "overall": found.overall}.items():
                figures = {f"{tier.lower()}_{f}": getattr(means, f"{level}_{f}") for f in ("p", "r", "f1")}
                if ned:
                    figures[f"{tier.lower()}_mp_ned"] = means.mp_ned
                row |= {f: v for f, v in figures.items() if v is not None}
            if level == "object":
                row["balanced_f1"] = found.balanced.object_f1
            ours[name] = row
        rows = [
            row._replace(why=REAL if row.name.endswith("CPOR-Grasp, real") else row.why)
            for row in paper_rows(label, ours, {}, BASELINES)
        ]
        tables.append(Table(label, title, rows, (note,)))
    return tables[0], tables[1]


def parse_decoder(name: str) -> DecoderName:
    """A decoder by its name; an unknown one is an error that lists the known ones."""
    known: tuple[DecoderName, ...] = get_args(DecoderName)
    return one_of("decoder", name, known)


def reproduce(
    scores_file: str | Path, truth_file: str | Path, shift: float = SHIFT, missing: Missing = "wrong"
) -> Reproduction:
    """Read a log of fused scores and the truth, and compute every figure they determine."""
    cases = read_truth(truth_file)
    return reproduce_from(cases, read_fused_scores(scores_file, len(cases)), shift, missing)


def reproduce_from(
    cases: Sequence[UnobenchCase],
    scores: FusedScores,
    shift: float = SHIFT,
    missing: Missing = "wrong",
    expected: bool = True,
) -> Reproduction:
    """As `reproduce`, from what the files hold. A case with an unanswered relation counts as missing."""
    scored = score_cases(cases, scores, shift)
    known = solve_cases(scored)
    solved = solve_cases(free_where_unknown(scored)) if missing == "unobstructed" else known
    exact = known.exact
    predictions: dict[DecoderName, dict[int, Prediction]] = {"paper": known.decode()}
    if expected:
        predictions["expected"] = {
            case.index: decode_expected(scene) for case, scene in zip(known.cases, known.scenes, strict=True)
        }
    right = np.array(
        [is_right(a, case.top_objects) for a, case in zip(exact.actions, known.cases, strict=True)]
    )
    mu = dict(zip((case.index for case in known.cases), exact.mu.tolist(), strict=True))
    return Reproduction(
        tuple(cases),
        shift,
        missing,
        {name: evaluate(cases, each, missing) for name, each in predictions.items()},
        predictions,
        (
            ReliabilityData("relations", scores.p, scores.label),
            ReliabilityData("objects", np.concatenate(exact.scores), np.concatenate(known.labels())),
            ReliabilityData("actions", np.array([q.max() for q in exact.scores]), right),
        ),
        {str(k or "adaptive"): measure_topk(known.scenes, exact, k) for k in (*FIXED_K, None)},
        mu_by_tier([case.difficulty for case in cases], np.array([mu.get(c.index, 0.0) for c in cases])),
        _compare_actions(cases, known, right),
        known,
        solved,
        measure_selective(solved, np.random.default_rng(SEED)),
    )


def export(found: Reproduction, decoder: DecoderName, path: str | Path) -> None:
    """Write a decoder's predictions for UNOGrasp's evaluator.

    Cases without candidate are written as unobstructed where they count as such, else left out.
    """
    filled = {
        case.index: prediction
        for case in found.cases
        if (prediction := fill_missing(case, found.predictions[decoder].get(case.index), found.missing))
        and prediction.paths
    }
    write_unograsp(path, found.cases, filled)


def _compare_actions(
    cases: Sequence[UnobenchCase], known: SolvedCases, right: np.ndarray
) -> dict[str, PairedComparison]:
    """Over all cases: where there is no candidate, every method grasps the target alike."""
    place = {case.index: k for k, case in enumerate(cases)}
    at = [place[case.index] for case in known.cases]
    after = np.array([case.target in case.top_objects for case in cases], np.float64)
    before = {"no_dag": after.copy(), "map": after.copy()}
    after[at] = right
    for name, found in before.items():
        found[at] = [
            is_right(forced_action(scene, q), case.top_objects)
            for scene, q, case in zip(known.scenes, known.models[name], known.cases, strict=True)
        ]
    images = image_of(cases)
    return {
        name: compare_paired(found, after, images, np.random.default_rng(SEED))
        for name, found in before.items()
    }
