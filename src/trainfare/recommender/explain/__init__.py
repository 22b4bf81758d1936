"""The reasons of a Plan, as data."""
