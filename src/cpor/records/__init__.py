"""How decisions are written: one JSON form for every surface."""
