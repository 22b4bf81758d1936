"""The tables of the documents this grew out of, recomputed from what they print: a row a number, and a verdict."""
