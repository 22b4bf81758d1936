"""Policies for a queue of jobs, played on the same instances under one evaluator."""
