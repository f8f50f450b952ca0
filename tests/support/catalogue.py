"""Objects of the simulator's catalogue by name."""

from cpor.sim.objects.catalogue import catalogue
from cpor.sim.objects.solids import ObjectModel


def object_named(name: str) -> ObjectModel:
    """The object of the catalogue with this name."""
    return next(model for model in catalogue() if model.name == name)
