"""A scope in the names of the catalog."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from trainfare.catalog.catalog import Catalog
from trainfare.errors import NotFoundError
from trainfare.model.machine import HERE, HERE_NAME
from trainfare.model.scope import Quota, Scope


def in_catalog(scope: Scope, catalog: Catalog) -> Scope:
    """The scope with the names that the catalog uses, whatever their spelling, and without repeated batch sizes.

    Raises NotFoundError for a name that the catalog does not have.
    """
    offers = (*catalog.at_hand, *catalog.hosts, *catalog.offers, *catalog.commitments)
    types = [offer.vm_type for offer in offers]
    providers = {vm_type.provider for vm_type in types}
    machines = {name for vm_type in types for name in (vm_type.key, vm_type.name)}
    gpus = {vm_type.gpu.name for vm_type in types if vm_type.gpu}
    regions = {offer.region for offer in offers}

    def known_gpu(name: str) -> str:
        found = catalog.find_gpu(name)
        return found.name if found is not None and found.name in gpus else _known("GPU", name, gpus, "scope")

    def known_quota(quota: Quota) -> Quota:
        if catalog.find_gpu(quota.name) is not None:
            return replace(quota, name=known_gpu(quota.name))
        names = {*machines, *providers, *gpus}
        return replace(quota, name=_known("machine, GPU or provider", quota.name, names, "quota"))

    def known_exclusion(name: str) -> str:
        if name.strip().lower() in (HERE_NAME, HERE):
            return HERE
        if (found := catalog.find_gpu(name)) is not None and found.name in gpus:
            return found.name
        return _known("machine, provider, GPU or region", name, {*machines, *providers, *gpus, *regions}, "exclude")

    return replace(
        scope,
        providers=_all_known("provider", scope.providers, providers),
        regions=_all_known("region", scope.regions, regions),
        machines=_all_known("machine", scope.machines, machines),
        gpus=tuple(known_gpu(name) for name in scope.gpus),
        exclude=tuple(dict.fromkeys(known_exclusion(name) for name in scope.exclude)),
        quota=tuple(known_quota(quota) for quota in scope.quota),
        batch_sizes=tuple(dict.fromkeys(scope.batch_sizes)),
    )


def _all_known(kind: str, names: Sequence[str], known: Iterable[str]) -> tuple[str, ...]:
    return tuple(_known(kind, name, known, "scope") for name in names)


def _known(kind: str, name: str, known: Iterable[str], field: str) -> str:
    names = {one.lower(): one for one in known}
    found = names.get(name.lower())
    if found is None:
        raise NotFoundError(kind, name, sorted(names.values()), listed_by="trainfare catalog list", field=field)
    return found
