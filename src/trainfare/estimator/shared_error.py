"""The errors that two estimates share.

Estimates that use one prediction of the iteration time err together: the same GPU (the same machine type where it was
measured, or without a GPU), basis, profile, batch size, nodes and GPUs per node. Prices and regions do not matter.

Limits: other estimates share errors too, such as those of a program that is slow everywhere or of one GPU at two batch
sizes. They have different keys and count as independent.
"""

from trainfare.model.estimate import Estimate


def error_key(estimate: Estimate) -> tuple[object, ...]:
    """A key that is equal for estimates that share the error of their iteration time."""
    candidate, vm_type = estimate.candidate, estimate.candidate.offer.vm_type
    gpu = None if estimate.basis == "measured" else vm_type.gpu
    return (
        estimate.basis,
        estimate.profile_id,
        vm_type.key if gpu is None else gpu.name,
        candidate.batch_size,
        candidate.nodes,
        candidate.working_gpus_per_node,
    )


def shares_error(a: Estimate, b: Estimate) -> bool:
    """True for two estimates that use one prediction of the iteration time."""
    return error_key(a) == error_key(b)
