"""What a camera sees of a world: ray casting, colour, and the faults of a depth sensor."""
