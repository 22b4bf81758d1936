"""One file per policy: a pure function from State to Decision."""
