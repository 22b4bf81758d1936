"""Runs on spot through the real supervisor, on availability traces and with a clock that is moved."""
