"""A view with what a person corrected of it: every decision follows at once."""

from dataclasses import replace

from cpor.answer import View
from cpor.corrections.history import Corrections
from cpor.corrections.labelling import BY_HAND
from cpor.gate.masks import MASK_CHECKS, check_masks
from cpor.pipeline import Stopwatch
from cpor.promise import check_masks_source
from cpor.sources import describe_sources
from cpor.system import GIVEN


def correct_view(seen: View, corrections: Corrections) -> View:
    """What was seen, with all that a person corrected of it.

    New masks are checked anew and count as a person's; the next decision scores their pairs. What was said of
    who lies on whom is decided from in place of beliefs.

    Args:
        seen: The view before any correction.
        corrections: Of its scene.
    """
    scene, relations = corrections.scene, corrections.relations
    if not corrections.changes_masks:
        return replace(seen, seen=scene, relations=relations)
    watch = Stopwatch()
    made = describe_sources(scene, BY_HAND, None)
    scene = replace(scene, sources=made)
    of_frame = (check for check in seen.checks if check.name not in (*MASK_CHECKS, "masks_source"))
    of_masks = check_masks(scene) if scene.objects else ()
    checks = (*of_frame, check_masks_source(scene, BY_HAND), *of_masks)
    watch.lap("check_masks")
    return View(scene, GIVEN, made, checks, seen.notes, watch.times_ms, relations=relations)
