"""Use case: a run or a plan as a file by which another tool carries it out."""

from dataclasses import dataclass
from pathlib import Path

from trainfare.app.running.send import data_for, recipe_for
from trainfare.clouds.recipes import EnvironmentRecipe, command_in_environment, read_recipe, runs_in_environment
from trainfare.errors import NotFoundError
from trainfare.model.machine import HERE_PROVIDER
from trainfare.model.program import Program
from trainfare.model.training_export import ExportFormat, Installation, TrainingExport
from trainfare.settings import Settings, read_settings
from trainfare.store.history import History
from trainfare.store.open import open_existing_history
from trainfare.views.exports import export_text


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedFile:
    """A file for another tool."""

    id: str
    """The run or the plan that it carries out."""
    format: ExportFormat
    text: str


def export(name: str, to: ExportFormat, *, settings: Settings | None = None) -> ExportedFile:
    """A run or a plan, by its id, as a task of SkyPilot, a batch script of Slurm, or a script of bash."""
    with open_existing_history((settings or read_settings()).store) as history:
        found = _find(history, name)
    return ExportedFile(id=name, format=to, text=export_text(found, to))


def _find(history: History, name: str) -> TrainingExport:
    try:
        return _of_run(history, name)
    except NotFoundError as no_run:
        try:
            return _of_plan(history, name)
        except NotFoundError as no_plan:
            near = [error.near for error in (no_run, no_plan) if error.near]
            raise NotFoundError("run or plan", name, near, listed_by="trainfare runs list") from None


def _of_run(history: History, name: str) -> TrainingExport:
    run = history.runs.get(name)
    machine = run.candidate.offer.vm_type.key
    recipe = recipe_for(run, machine) if Path(run.program.directory).is_dir() else None
    return TrainingExport(
        id=run.id,
        program=_program(run.program, recipe),
        candidate=run.candidate,
        estimate=run.estimate,
        limits=run.limits,
        setup=run.setup,
        variables=run.variables,
        secrets=run.secrets,
        data=data_for(run, machine),
        installation=_installation(recipe),
    )


def _of_plan(history: History, name: str) -> TrainingExport:
    chosen = history.plans.get(name).chosen
    program = history.profiles.get(chosen.profile_id).program
    elsewhere = chosen.candidate.offer.vm_type.provider != HERE_PROVIDER
    wanted = elsewhere and runs_in_environment(program.command) and Path(program.directory).is_dir()
    recipe = read_recipe(Path(program.directory)) if wanted else None
    return TrainingExport(
        id=name,
        program=_program(program, recipe),
        candidate=chosen.candidate,
        estimate=chosen,
        installation=_installation(recipe),
    )


def _program(program: Program, recipe: EnvironmentRecipe | None) -> Program:
    if recipe is None or not recipe.installs:
        return program
    command = command_in_environment(program.command, Path(program.directory))
    return Program(command=command, directory=program.directory)


def _installation(recipe: EnvironmentRecipe | None) -> Installation | None:
    if recipe is None:
        return None
    return Installation(
        named_by=recipe.named_by,
        arguments=recipe.arguments,
        locked=recipe.locked,
        source_roots=recipe.source_roots,
    )
