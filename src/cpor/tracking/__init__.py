"""The same thing keeps its id: who is who in the next look, and what is still believed of it."""
