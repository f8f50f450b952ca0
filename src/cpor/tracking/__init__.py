"""The same thing keeps its id: which object is which in the next look, and what is still believed of it."""
