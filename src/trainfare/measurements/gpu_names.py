"""The catalog's name of the GPU in a text: the name of a device, of a machine, or a heading."""

import re

_GPUS = (
    (r"A100(?=.*PCIe).*80 ?GB", "A100-80GB-PCIe"),
    (r"A100.*PCIe", "A100-PCIe"),
    (r"A100.*80 ?GB", "A100-80GB"),
    (r"A100", "A100"),
    (r"GH200", "GH200"),
    (r"H100.*NVL", "H100-NVL"),
    (r"H100.*PCIe", "H100-PCIe"),
    (r"H100", "H100"),
    (r"V100.*PCIe", "V100-PCIe"),
    (r"V100.*32 ?GB", "V100-32GB"),
    (r"V100", "V100"),
    (r"(RTX )?([456]\d00) Ada", r"RTX \2 Ada"),
    (r"Quadro RTX (\d+)", r"Quadro RTX \1"),
    (r"RTX (8000|6000|5000)", r"Quadro RTX \1"),
    (r"(RTX )?(A[456][05]00)", r"RTX \2"),
    (r"(RTX )?([2345]0[5-9]0)( Ti| SUPER)?", r"RTX \2\3"),
    (r"(GTX )?(10[5-8]0)( Ti)?", r"GTX \2\3"),
    (r"Titan ?(RTX|V|Xp)", r"Titan \1"),
    (r"(A10G|A10|A40|L40S|L40|L4|T4|P100|P4|M60|K80|K40|H200|B200|B300|MI300X)", r"\1"),
)
"""The first pattern that matches complete words decides."""


def find_gpu_name(text: str) -> str:
    """`A100-PCIe` for `LambdaCloud A100 40GB PCIe` and for `A100-PCIE-40GB`.

    A text without a match is returned without the vendor's prefixes.
    """
    spaced = re.sub(r"(?i)\b\d+x|_", " ", text)
    spaced = re.sub(r"(?i)(?<=Quadro)(?=RTX)|(?<=RTX|GTX)(?=[A-Z]?\d)|(?<=\d)(?=Ti|Ada|Super)", " ", spaced)
    for pattern, name in _GPUS:
        if found := re.search(rf"(?<![A-Za-z0-9]){pattern}(?![A-Za-z0-9])", spaced, re.IGNORECASE):
            return found.expand(name)
    for word in ("NVIDIA ", "Tesla ", "GeForce "):
        text = text.removeprefix(word)
    return text
