"""What the nouns demand of their numbers and names; a wrong one is a `ValueError` that names the field."""

import math
from datetime import datetime


def require_text(**fields: str) -> None:
    """Not empty, and text: bytes that a shell could not decode cannot be kept."""
    for name, value in fields.items():
        if not value.strip():
            raise ValueError(f"{name} must not be empty")
        require_unicode(**{name: value})


def require_unicode(**fields: str) -> None:
    for name, value in fields.items():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{name} has bytes that are not text: {value!a}") from None


def require_positive(**fields: float | None) -> None:
    """None means unknown and passes; NaN and infinity do not."""
    for name, value in fields.items():
        if value is not None and not (value > 0 and math.isfinite(value)):
            raise ValueError(f"{name} must be positive, got {value}")


def require_not_negative(**fields: float | None) -> None:
    for name, value in fields.items():
        if value is not None and not (value >= 0 and math.isfinite(value)):
            raise ValueError(f"{name} must not be negative, got {value}")


def require_aware(**fields: datetime) -> None:
    for name, value in fields.items():
        if value.tzinfo is None:
            raise ValueError(f"{name} must carry a time zone, got {value.isoformat()}")
