"""From a Profile and a Candidate to an Estimate: time, memory, money, and how sure. Pure."""
