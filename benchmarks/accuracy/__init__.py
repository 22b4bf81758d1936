"""The accuracy of predictions by task, on rows that were left out of the fit."""
