"""From relation probabilities to a decision: exact inference, Top-K, bounds, certificates."""
