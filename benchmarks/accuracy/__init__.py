"""How far off the predictions are, task by task, on rows that the fit has not seen."""
