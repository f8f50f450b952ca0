"""The paper's decoder: shift by the edge prior, threshold the marginals, read paths off the MAP graph."""

from cpor.decision import ROUNDING
from cpor.errors import InvalidSceneError
from cpor.infer.decide import decide
from cpor.infer.topk import iterate_graphs
from cpor.paper.paths import Prediction, maximal_paths
from cpor.relations import ObstructionPosterior
from cpor.scene import BlockedBy

SHIFT = 0.09
"""The authors' edge prior; they chose it on the test split, so it serves to reproduce and nothing else."""

THRESHOLD = 0.5
"""An object is predicted when its marginal exceeds this."""


def threshold_objects(scores: dict[int, float], threshold: float = THRESHOLD) -> frozenset[int]:
    """Objects, the target among them, whose marginal exceeds the threshold; may be empty."""
    return frozenset(o for o, q in scores.items() if q > threshold + ROUNDING)


def map_graph(posterior: ObstructionPosterior) -> frozenset[BlockedBy]:
    """The likeliest acyclic graph over all candidate relations."""
    if posterior.has_unanswered:
        raise InvalidSceneError(
            "some relations have no answer; give them a probability (a prior will do) to decode"
        )
    first = next(iterate_graphs(posterior.p_obstructs))
    objects = object_ids(posterior)
    return frozenset(BlockedBy(objects[i], objects[j]) for i, j in first.edges.tolist())


def decode_paper(posterior: ObstructionPosterior) -> Prediction:
    """The paper's answer for probabilities that are shifted already.

    Objects: {o : q_o > .5}, the target included; may be empty. Paths: every maximal path of the MAP
    graph from the target outward. Relations: the consecutive pairs on those paths.
    """
    decision = decide(posterior, tau=0.0)
    scores = dict(zip(object_ids(posterior), decision.scores.values(), strict=True))
    found = assemble_paper(scores, map_graph(posterior), object_ids(posterior)[posterior.target_index])
    return found.without(posterior.unseen)


def assemble_paper(scores: dict[int, float], graph: frozenset[BlockedBy], target: int) -> Prediction:
    """The same from marginals and a MAP graph that are known already."""
    return Prediction.from_paths(threshold_objects(scores), maximal_paths(target, graph))


def object_ids(posterior: ObstructionPosterior) -> list[int]:
    """The labels, which predictions need to be numbers."""
    if not all(isinstance(label, int) for label in posterior.objects):
        raise InvalidSceneError(
            "predictions name objects by number; this scene has labels that are no integers"
        )
    return [label for label in posterior.objects if isinstance(label, int)]
