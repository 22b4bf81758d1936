"""Where the samples are; README.md says who wrote them."""

from pathlib import Path

SAMPLES = Path(__file__).parent
