"""Use cases: measure a program on other machines, as planned or where the user says."""
