"""The command line: parse, one app call, render."""
