"""How a heap comes to lie: worlds, settling, burying a target, and the true obstructions."""
