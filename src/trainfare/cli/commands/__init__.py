"""One file per command, or per group of commands: parse, one call of `app/`, render."""
