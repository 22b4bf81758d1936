"""The sentences of the reasons and remarks of `recommender/explain`, one file for each topic."""
