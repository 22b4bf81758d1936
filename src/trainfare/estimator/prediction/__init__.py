"""Step-time prediction: one file per basis, and the predictor that picks the best one the profiles allow."""
