"""Training of the embedded networks (extra `train`): nothing outside this room needs torch."""
