"""Renew the prices of all providers from the catalog that gpuhunt publishes: the use case of `catalog update`.

Each provider is downloaded, checked and saved on its own, so one that fails keeps its last prices and does not hold
back the others. A table is refused if it has no price, if most of its prices are ten times off those that are known, or
if it lists less than a quarter of the machines of the table that it would replace: a wrong column or a broken export
looks like that, and a market does not.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path

from trainfare.app.catalog.import_prices import cpu_machines, last_seen, offers_by_provider, price_import
from trainfare.app.catalog.offers import open_catalog
from trainfare.catalog.catalog import LIST_COMMAND, Catalog, merge_newest
from trainfare.catalog.download import UnreachableError
from trainfare.catalog.imports import read_price_table
from trainfare.catalog.prices import price_file, read_prices, save_prices
from trainfare.catalog.published import PUBLISHED, PUBLISHED_AT, SourceTable, fetch_published, is_base, open_source
from trainfare.errors import ExternalError, NotFoundError, Remedy, TrainfareError, UsageError
from trainfare.model.catalog import PriceUpdate, UpdatedTable, UpdateFailure
from trainfare.model.offer import Offer
from trainfare.settings import Settings, read_settings
from trainfare.units import plural

TIMEOUT_SECONDS = 30.0
SUSPICIOUS_RATIO = 10.0
"""A price that changed by more than this is suspicious."""
LEAST_COMPARED = 3
"""Known prices without which a table cannot be judged by the change of its prices."""
LEAST_SHARE_OF_MACHINES = 0.25

Outcome = UpdatedTable | UpdateFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """The catalog and the folder that are updated, and the options of the update."""

    catalog: Catalog
    directory: Path
    providers: tuple[str, ...]
    """The providers to update; all if empty."""
    seen_on: date | None
    today: date
    dry_run: bool


def update_prices(
    *,
    source: str | None = None,
    providers: Sequence[str] = (),
    seen_on: date | None = None,
    dry_run: bool = False,
    timeout_seconds: float = TIMEOUT_SECONDS,
    progress: Callable[[Outcome], None] | None = None,
    today: date | None = None,
    settings: Settings | None = None,
) -> PriceUpdate:
    """Download, check and save the newest prices.

    `source` is a mirror of the published catalog, one table or archive on a server, or a file or folder here.
    `providers` limits the update to some. `progress` is called with each table as it is done.
    An `ExternalError` or `UsageError` says that no price at all was renewed.
    """
    settings, source = settings or read_settings(), source or PUBLISHED_AT
    target = _Target(
        catalog=open_catalog(settings),
        directory=Path(settings.prices),
        providers=tuple(providers),
        seen_on=seen_on,
        today=today or datetime.now(UTC).date(),
        dry_run=dry_run,
    )
    _require_known(target, source)
    outcomes: list[Outcome] = []
    for outcome in _outcomes(target, source, timeout_seconds):
        outcomes.append(outcome)
        if progress is not None:
            progress(outcome)
    updated = tuple(outcome for outcome in outcomes if isinstance(outcome, UpdatedTable))
    failed = tuple(outcome for outcome in outcomes if isinstance(outcome, UpdateFailure))
    if not updated:
        problems = " ".join(failure.problem for failure in failed[:2]) or f"{source} has no table of these providers."
        raise ExternalError(f"no price was renewed: {problems} The prices stay as they were.")
    return PriceUpdate(source=source, updated=updated, failed=failed, dry_run=dry_run)


def _require_known(target: _Target, source: str) -> None:
    known = set(PUBLISHED) if is_base(source) else {o.vm_type.provider for o in target.catalog.offers}
    for provider in target.providers:
        if provider not in known:
            listed_by = None if is_base(source) else LIST_COMMAND
            raise NotFoundError("published provider", provider, known, listed_by=listed_by, field="providers")


def _outcomes(target: _Target, source: str, timeout_seconds: float) -> Iterator[Outcome]:
    if not is_base(source):
        for table in open_source(source, timeout_seconds=timeout_seconds):
            yield _outcome(target, table, None)
        return
    any_answer = False
    for provider in target.providers or PUBLISHED:
        try:
            table = fetch_published(source, provider, timeout_seconds=timeout_seconds)
        except UnreachableError as error:
            if not any_answer:  # the others would each wait as long for the same server
                raise ExternalError(
                    f"{error.message} The prices stay as they were. A table that was downloaded elsewhere can be used"
                    " instead.",
                    remedies=[Remedy({"source": "aws.csv"})],
                ) from error
            yield UpdateFailure(name=provider, problem=error.message)
            continue
        except ExternalError as error:
            yield UpdateFailure(name=provider, problem=error.message)
            continue
        any_answer = True
        yield _outcome(target, table, provider)


def _outcome(target: _Target, table: SourceTable, provider: str | None) -> Outcome:
    try:
        return _use(target, table, provider)
    except TrainfareError as error:
        return UpdateFailure(name=provider or Path(table.name).stem, problem=error.message)


def _use(target: _Target, table: SourceTable, provider: str | None) -> UpdatedTable:
    """Check and save one table; an error says why it is refused."""
    catalog, day = target.catalog, target.seen_on or table.seen_on or target.today
    if day > target.today:
        raise UsageError(f"{table.name} cannot have been seen on {day}: that day is in the future.", field="seen_on")
    table_format, parsed = read_price_table(
        Path(table.name),
        content=table.content,
        gpus=catalog.gpus,
        known_providers={offer.vm_type.provider for offer in catalog.offers} | set(PUBLISHED),
        seen_on=day,
        provider=provider,
        cpu_machines=cpu_machines(catalog),
    )
    if target.providers:
        kept = tuple(offer for offer in parsed.offers if offer.vm_type.provider in target.providers)
        parsed = replace(parsed, offers=kept)
    if not parsed.offers:
        raise UsageError(f"{table.name} has no machine with a price in {plural(parsed.rows, 'row')}.")
    by_provider = offers_by_provider(parsed.offers)
    for name, offers in by_provider.items():
        _require_plausible(target, name, offers)
    saved = () if target.dry_run else tuple(_save(target, name, offers) for name, offers in by_provider.items())
    return UpdatedTable(
        name=provider or ", ".join(by_provider),
        version=table.version,
        sha256=table.sha256,
        imported=price_import(catalog, parsed, table_format, seen_on=day, today=target.today, saved=saved),
    )


def _require_plausible(target: _Target, provider: str, offers: Sequence[Offer]) -> None:
    """Refuse a table that is older than the saved one, or cannot be right."""
    last, day = last_seen(target.directory, provider, target.catalog.gpus), offers[0].seen_on
    if last is not None and last > day:
        raise UsageError(f"{provider}: the saved prices were seen on {last}, later than these ({day}).")
    known = [o for o in target.catalog.rentable_on(target.today) if o.vm_type.provider == provider]
    before = {offer.key: offer.usd_per_hour for offer in known}
    ratios = [offer.usd_per_hour / before[offer.key] for offer in offers if offer.key in before]
    odd = sum(not 1 / SUSPICIOUS_RATIO <= ratio <= SUSPICIOUS_RATIO for ratio in ratios)
    if len(ratios) >= LEAST_COMPARED and odd > len(ratios) / 2:
        raise UsageError(
            f"{provider}: {odd} of {plural(len(ratios), 'known price')} changed by more than a factor of"
            f" {SUSPICIOUS_RATIO:g}, so the table is refused. If it is right, import it as a file."
        )
    saved = _saved(target, provider)
    machines, replaced = (len({offer.vm_type.key for offer in table}) for table in (offers, saved))
    if machines < LEAST_SHARE_OF_MACHINES * replaced:
        raise UsageError(
            f"{provider}: the table has {plural(machines, 'machine')} where the last one had {replaced}, so it is"
            " refused. If it is right, import it as a file."
        )


def _save(target: _Target, provider: str, offers: Sequence[Offer]) -> str:
    """Replace the saved prices. Those of a table from elsewhere stay, if this one does not list them."""
    foreign = [offer for offer in _saved(target, provider) if offer.source != offers[0].source]
    return str(save_prices(target.directory, provider, merge_newest(foreign, offers)))


def _saved(target: _Target, provider: str) -> Iterable[Offer]:
    if not price_file(target.directory, provider).exists():
        return ()
    saved = read_prices(target.directory, target.catalog.gpus)
    return tuple(offer for offer in saved if offer.vm_type.provider == provider)
