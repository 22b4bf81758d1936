"""What to do next, given a Plan and Observations. Pure. Empty until plans are carried out."""
