"""From Estimates and a Goal to a Plan with its reasons. Pure."""
