"""What the user wants to choose from, in the words of the catalog."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from trainfare.catalog.catalog import Catalog
from trainfare.errors import NotFoundError
from trainfare.model.scope import Quota, Scope


def in_catalog(scope: Scope, catalog: Catalog) -> Scope:
    """With the names that the catalog has, whatever way they were written; `NotFoundError` for one that it has not. A batch
    size that was named twice is one."""
    offers = (*catalog.offers, *catalog.commitments)
    types = [offer.vm_type for offer in offers]
    providers = {vm_type.provider for vm_type in types}
    machines = {name for vm_type in types for name in (vm_type.key, vm_type.name)}
    gpus = {vm_type.gpu.name for vm_type in types if vm_type.gpu}
    regions = {offer.region for offer in offers}

    def gpu(name: str) -> str:
        found = catalog.find_gpu(name)
        return found.name if found is not None and found.name in gpus else _known("GPU", name, gpus)

    def counted(quota: Quota) -> Quota:
        if catalog.find_gpu(quota.of) is not None:
            return replace(quota, of=gpu(quota.of))
        return replace(quota, of=_known("machine, GPU or provider", quota.of, {*machines, *providers, *gpus}))

    return replace(
        scope,
        providers=_all("provider", scope.providers, providers),
        regions=_all("region", scope.regions, regions),
        machines=_all("machine", scope.machines, machines),
        gpus=tuple(gpu(name) for name in scope.gpus),
        quota=tuple(counted(quota) for quota in scope.quota),
        batch_sizes=tuple(dict.fromkeys(scope.batch_sizes)),
    )


def _all(kind: str, names: Sequence[str], known: Iterable[str]) -> tuple[str, ...]:
    return tuple(_known(kind, name, known) for name in names)


def _known(kind: str, name: str, known: Iterable[str]) -> str:
    names = {one.lower(): one for one in known}
    found = names.get(name.lower())
    if found is None:
        raise NotFoundError(kind, name, sorted(names.values()), listed_by="trainfare catalog list")
    return found
