"""Checks that nouns make of their fields; a wrong value is a `ValueError` that names the field."""

import math
from datetime import datetime


def require_text(**fields: str) -> None:
    """Every text must be non-empty and valid Unicode."""
    for name, value in fields.items():
        if not value.strip():
            raise ValueError(f"{name} must not be empty")
        if not value.isascii():
            require_unicode(**{name: value})


def require_unicode(**fields: str) -> None:
    """Every text must be encodable: bytes that a shell could not decode cannot be stored as JSON."""
    for name, value in fields.items():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{name} has bytes that are not text: {value!a}") from None


def require_positive(**fields: float | None) -> None:
    """Every number must be positive and finite; None means unknown and is accepted."""
    for name, value in fields.items():
        if value is not None and not (value > 0 and math.isfinite(value)):
            raise ValueError(f"{name} must be positive, got {value}")


def require_not_negative(**fields: float | None) -> None:
    """Every number must be zero or positive, and finite; None means unknown and is accepted."""
    for name, value in fields.items():
        if value is not None and not (value >= 0 and math.isfinite(value)):
            raise ValueError(f"{name} must not be negative, got {value}")


def require_aware(**fields: datetime) -> None:
    """Every moment must have a time zone."""
    for name, value in fields.items():
        if value.tzinfo is None:
            raise ValueError(f"{name} must have a time zone, got {value.isoformat()}")
