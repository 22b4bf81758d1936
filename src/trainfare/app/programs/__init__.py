"""The forms in which a program is given: a command, an archive with a main script, a task file."""
