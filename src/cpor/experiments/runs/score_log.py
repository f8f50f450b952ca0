"""UNOBench's score log and ground truth as a dataset to run on."""

from pathlib import Path

from cpor.data.unobench import read_fused_scores, read_truth
from cpor.experiments.runs.dataset import Dataset, LogItem, fingerprint_files


def read_logged_dataset(scores: Path, truth: Path) -> Dataset:
    """Every case of the truth, in its order, with what the log says of it.

    The tier of a case is the field `difficulty`, the one of the paper's tables.

    Raises:
        CporError: With the file, the line and what is wrong in it.
    """
    cases = read_truth(truth)
    log = read_fused_scores(scores, len(cases)).by_case()
    items = tuple(
        LogItem(
            case=case.index,
            image=str(case.image_id),
            tier=case.difficulty,
            target=case.target,
            pairs=None if (pairs := log.get(case.index)) is None else tuple(sorted(pairs.items())),
            right=tuple(sorted(case.top_objects)),
            relations=tuple(sorted(case.relations)),
        )
        for case in cases
    )
    return Dataset("score log", fingerprint_files([scores, truth]), items)
