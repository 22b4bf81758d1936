"""Files for other tools that carry a training out."""

from trainfare.model.training_export import ExportFormat, TrainingExport
from trainfare.views.exports.script import script_text
from trainfare.views.exports.skypilot import skypilot_text
from trainfare.views.exports.slurm import slurm_text


def export_text(export: TrainingExport, to: ExportFormat) -> str:
    """The file for a tool: a task of SkyPilot, a batch script of Slurm, or a script of bash."""
    return {"skypilot": skypilot_text, "slurm": slurm_text, "script": script_text}[to](export)
