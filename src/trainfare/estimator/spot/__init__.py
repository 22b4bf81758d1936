"""Whether a training on spot machines meets its deadline."""
