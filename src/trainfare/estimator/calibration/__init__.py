"""All fitted coefficients together, and what the user's own profiles correct."""
