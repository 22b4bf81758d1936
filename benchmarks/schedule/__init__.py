"""Scheduling policies compared on the same queues under one evaluator."""
