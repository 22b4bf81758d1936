"""What a figure of a document shows, before anybody draws it: points with their labels, and what is to be seen."""

from trainfare.figures.chart import Chart as Figure
from trainfare.figures.chart import Series

__all__ = ["Figure", "Series"]
