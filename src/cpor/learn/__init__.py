"""Learning: calibration, fusion, promised error rates, and the metrics that judge them."""
