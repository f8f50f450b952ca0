"""A view with what a person corrected of it: every decision follows at once."""

from dataclasses import replace

from cpor.answer import View
from cpor.corrections.history import Corrections
from cpor.corrections.labelling import BY_HAND
from cpor.parts import GIVEN
from cpor.promise import remask


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
    return remask(replace(seen, relations=relations, told=None), scene, GIVEN, BY_HAND)
