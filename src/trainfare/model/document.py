"""Nouns as JSON documents and back: `{"kind": "profile", "version": 3, …fields}`.

A field of a noun that is itself called `kind` is written as `fact_kind`, after the noun.

A reader ignores fields that it does not know, so fields may be added within a version. A change that an old reader
would misread raises the version, and adds a step to `_UPGRADES` that upgrades older documents.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from trainfare.model.access import Token
from trainfare.model.estimate import Estimate
from trainfare.model.offer import Offer
from trainfare.model.plan import Plan
from trainfare.model.profile import Profile
from trainfare.model.run import Fact, Observation, Run
from trainfare.model.submission import Submission
from trainfare.model.task import Task, TaskEvent

VERSION = 3

Document = dict[str, Any]
Noun = Profile | Offer | Estimate | Plan | Run | Fact | Observation | Submission | Token | Task | TaskEvent
N = TypeVar("N", bound=Noun)

KINDS = (
    "profile",
    "offer",
    "estimate",
    "plan",
    "run",
    "fact",
    "observation",
    "submission",
    "token",
    "task",
    "taskevent",
)


def _unchanged(document: Document) -> Document:
    return document


def _profile_with_micro_batch_size(document: Document) -> Document:
    """Version 2 of a profile: `batch_size` is called `micro_batch_size`, and `global_batch_size` (micro batch ×
    accumulation × processes) is replaced by `accumulation_steps`."""
    upgraded = {name: value for name, value in document.items() if name not in ("batch_size", "global_batch_size")}
    micro, effective = document.get("batch_size"), document.get("global_batch_size")
    processes = document.get("world_size", 1)
    upgraded["micro_batch_size"] = micro
    # A value of another type or sign is left to the conversion, which names the field.
    if all(isinstance(number, int) and number > 0 for number in (micro, effective, processes)):
        upgraded["accumulation_steps"] = max(1, round(effective / (micro * processes)))
    return upgraded


_TF32_BY_DEFAULT = {"pytorch": ("convolution", "rnn")}
"""The kinds of float32 products that a framework runs in TF32 by default; of other frameworks, all."""


def _profile_with_tf32(document: Document) -> Document:
    """Version 3 of a profile: a product that the program allows to run in TF32 has the dtype `tf32` on every device.
    Before, only PyTorch's on GPUs had; for others the default of the framework is assumed."""
    operations, framework = document.get("operations"), str(document.get("framework"))
    if not isinstance(operations, list) or (framework == "pytorch" and document.get("device") == "cuda"):
        return document
    kinds = _TF32_BY_DEFAULT.get(framework, ("matmul", "convolution", "rnn"))
    return {
        **document,
        "operations": [
            {**row, "dtype": "tf32"}
            if isinstance(row, dict) and row.get("dtype") == "float32" and row.get("kind") in kinds
            else row
            for row in operations
        ],
    }


MIGRATION_PARTS = ("checkpoint", "upload", "download", "restore")
_TOPICS = {"sure?": "certainty", "what would change it": "changes", "charged": "charges", "assumed": "assumptions"}


def _plan_with_reason_data(document: Document) -> Document:
    """Version 2 of a plan: each reason is a Reason instead of a sentence and a topic in a second list, and `legs` is
    called `split`."""
    upgraded = {name: value for name, value in document.items() if name not in ("topics", "legs")}
    sentences = document.get("reasons") or []
    topics = document.get("topics") or ["why"] * len(sentences)
    if len(topics) != len(sentences):
        raise ValueError(f"this plan cannot be read: it has {len(sentences)} reasons and {len(topics)} topics")
    upgraded["reasons"] = [
        {"topic": _TOPICS.get(topic, topic), "code": "text", "values": {"text": sentence}}
        for topic, sentence in zip(topics, sentences, strict=True)
    ]
    split = document.get("legs")
    upgraded["split"] = _split_with_segments(split) if isinstance(split, dict) else split
    return upgraded


def _split_with_segments(split: Document) -> Document:
    """Version 2 of a split plan: `legs` are called `segments`, `move` is called `migration`, `instead_of` is called
    `single_machine`, `reached` is called `early_target`, and `found` of a part of the migration is called `basis`."""
    renamed = {
        "legs": "segments",
        "move": "migration",
        "instead_of": "single_machine",
        "reached": "early_target",
        "early": "target",
        "found": "basis",
    }

    def rename(record: Document) -> Document:
        return {renamed.get(name, name): value for name, value in record.items()}

    upgraded = rename(split)
    migration, early_target = upgraded.get("migration"), upgraded.get("early_target")
    if isinstance(migration, dict):
        parts = {name: rename(part) for name in MIGRATION_PARTS if isinstance(part := migration.get(name), dict)}
        upgraded["migration"] = {**migration, **parts}
    if isinstance(early_target, dict):
        upgraded["early_target"] = rename(early_target)
    return upgraded


_UPGRADES: dict[tuple[str, int], Callable[[Document], Document]] = {
    **{(kind, version): _unchanged for kind in KINDS for version in (1, 2)},
    ("profile", 1): _profile_with_micro_batch_size,
    ("plan", 1): _plan_with_reason_data,
    ("profile", 2): _profile_with_tf32,
}
"""(kind, version) → the same document one version later."""


def to_document(noun: Noun) -> Document:
    """The noun as lists, dicts, numbers and strings."""
    kind, fields = kind_of(type(noun)), msgspec.to_builtins(noun)
    if "kind" in fields:
        fields = {f"{kind}_kind" if name == "kind" else name: value for name, value in fields.items()}
    return {"kind": kind, "version": VERSION, **fields}


def to_json(noun: Noun) -> str:
    """The document of a noun as JSON text."""
    return msgspec.json.encode(to_document(noun)).decode()


def from_document(noun_type: type[N], document: object) -> N:
    """The noun, or a `ValueError` that says which field is wrong."""
    kind = kind_of(noun_type)
    if not isinstance(document, dict) or document.get("kind") != kind:
        actual = document.get("kind") if isinstance(document, dict) else None
        raise ValueError(
            f"this is not {_with_article(kind)}" + (f" but {_with_article(str(actual))}" if actual else "")
        )
    version = document.get("version")
    if not isinstance(version, int) or version < 1:
        raise ValueError(f"this {kind} has no version")
    if version > VERSION:
        raise ValueError(
            f"this {kind} was written by a newer trainfare (document version {version}; "
            f"this trainfare reads up to {VERSION}); update trainfare to read it"
        )
    while version < VERSION:
        document, version = _UPGRADES[kind, version](document), version + 1
    if f"{kind}_kind" in document:
        document = {**document, "kind": document[f"{kind}_kind"]}
    try:
        return msgspec.convert(document, noun_type)
    except msgspec.ValidationError as error:
        raise ValueError(f"this {kind} cannot be read: {error}") from error


def from_json(noun_type: type[N], text: str | bytes) -> N:
    """The noun, or a `ValueError` that says why the text cannot be read."""
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"this is not JSON that can be read: {error}") from error
    return from_document(noun_type, document)


def kind_of(noun_type: type) -> str:
    """The name of a type of noun in documents: `profile`."""
    return noun_type.__name__.lower()


def _with_article(kind: str) -> str:
    return f"an {kind}" if kind[:1] in "aeiou" else f"a {kind}"
