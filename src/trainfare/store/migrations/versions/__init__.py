"""r0001_… is the first; each names the one before it."""
