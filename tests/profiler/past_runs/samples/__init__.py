"""The folder of the samples; README.md lists their origins."""

from pathlib import Path

SAMPLES = Path(__file__).parent
