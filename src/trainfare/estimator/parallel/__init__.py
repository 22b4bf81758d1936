"""The time of one step on several GPUs: links, rings and parameter servers."""
