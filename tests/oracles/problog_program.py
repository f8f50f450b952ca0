"""The same posterior (eq. graph-posterior, marginals) as a ProbLog program, compiled to an SDD.

ProbLog is the general exact tool one would otherwise reach for. Of its compilers and of the ways to
write reachability, this is the combination that was fastest on scenes like ours: sentential decision
diagrams (d-DNNF needs tens of times longer on cyclic scenes), left recursion, rules parsed once.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float

from cpor.errors import CporError
from cpor.relations import ObstructionPosterior
from oracles.candidates import CandidateEdges, candidate_edges

_RULES = r"""
path(X, Y) :- edge(X, Y).
path(X, Y) :- path(X, Z), edge(Z, Y).
cyclic :- object(X), path(X, X).
acyclic :- \+ cyclic.
obstructed(X) :- edge(X, _).
free :- target(X), \+ obstructed(X).
removable(Y) :- target(X), path(X, Y), \+ obstructed(Y).
"""


def problog_scores(
    posterior: ObstructionPosterior, zeta: float = 1e-9
) -> tuple[float, Float[np.ndarray, " n"]]:
    """Z over all candidate edges and the exact score of every object.

    Args:
        posterior: A scene without unanswered pairs.
        zeta: Probabilities of candidate edges are clipped to [zeta, 1 - zeta].

    Returns:
        Z, and q of eq. marginals in the order of the objects. Shape (n,).
    """
    candidates = candidate_edges(posterior, zeta)
    with _quiet():
        formula, acyclic = _compile(candidates)
        given_acyclic = formula.evaluate()
        # The diagram is the same; only the evidence is taken back.
        unconditional = formula.evaluate(evidence={acyclic: None})
    scores = np.zeros(candidates.n)
    for query, p in given_acyclic.items():
        if query.functor == "free":
            scores[candidates.target] = p
        elif query.functor == "removable" and query.is_ground():
            scores[int(query.args[0])] = p
    return float(unconditional[acyclic]), scores


def _compile(candidates: CandidateEdges) -> tuple[Any, Any]:
    """One diagram for all queries of a scene, and the term for acyclicity, its evidence."""
    engine, rules, logic, diagram = _prepare()
    database = rules.extend()
    constants = [logic.Constant(v) for v in range(candidates.n)]
    for (blocked, blocker), p in zip(candidates.pairs, candidates.p_present, strict=True):
        weight = logic.Constant(float(p))
        database.add_fact(logic.Term("edge", constants[blocked], constants[blocker], p=weight))
    for v in {candidates.target, *(v for pair in candidates.pairs for v in pair)}:
        database.add_fact(logic.Term("object", constants[v]))
    database.add_fact(logic.Term("target", constants[candidates.target]))
    acyclic = logic.Term("acyclic")
    ground = engine.ground_all(
        database,
        queries=[logic.Term("removable", None), logic.Term("free"), acyclic],
        evidence=[(acyclic, True)],
    )
    return diagram.create_from(ground), acyclic


@lru_cache(maxsize=1)
def _prepare() -> tuple[Any, Any, Any, Any]:
    """ProbLog's engine, the rules parsed, its module of terms, its SDD compiler."""
    remedy = "this oracle needs ProbLog and PySDD: pip install 'cpor-grasp[peers]'"
    try:
        from problog import logic
        from problog.engine import DefaultEngine
        from problog.program import PrologString
        from problog.sdd_formula import SDD
    except ImportError as error:
        raise CporError(remedy) from error
    if not SDD.is_available():
        raise CporError(remedy)
    engine = DefaultEngine()
    return engine, engine.prepare(PrologString(_RULES)), logic, SDD


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep ProbLog's own deprecated calls from warning our callers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", SyntaxWarning)
        yield
