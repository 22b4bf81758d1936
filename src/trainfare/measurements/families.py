"""Families of programs with similar architectures; a measurement of one nearly predicts the others, so a test holds out
whole families."""

import re

# A name that contains another comes first: `seresnext50` is a ResNeXt, not a ResNet.
_FAMILY_WORDS = (
    "cs3", "csp", "darknet", "nf_", "convnext", "edgenext", "resnext", "res2next", "res2net", "resnest",
    "haloregnet", "halo", "lambda_resnet", "resnetv2", "tresnet", "inception", "botnet", "botnext", "sknet",
    "skresne", "nfnet", "wide_resnet", "selecsls", "efficientnet", "mobilenet", "mobilevit", "mnasnet", "mixnet",
    "fbnet", "hardcorenas", "tinynet", "lcnet", "ghostnet", "rexnet", "regnetz", "regnet", "repvgg", "vgg",
    "vovnet", "xception", "densenet", "dla", "dpn", "gernet", "hrnet", "nasnet", "pnasnet", "squeezenet",
    "shufflenet", "convmixer", "senet", "resnet", "swin", "twins", "volo", "xcit", "tnt", "pit_", "nest_",
    "levit", "crossvit", "coat", "convit", "cait", "beit", "deit", "visformer", "poolformer", "sequencer", "vit_",
    "gmixer", "resmlp", "mixer", "gmlp",
)  # fmt: skip
_MERGED_FAMILIES = {
    "res2next": "res2net",
    "haloregnet": "halo",
    "botnext": "botnet",
    "skresne": "sknet",
    "nf_": "nfnet",
    "cs3": "csp",
    "darknet": "csp",
    "wide_resnet": "resnet",
    "pnasnet": "nasnet",
    "deit": "vit",
    "vit_": "vit",
    "beit": "vit",
    "pit_": "pit",
    "nest_": "nest",
    "gmixer": "mixer",
    "resmlp": "mixer",
    "gmlp": "mixer",
    "senet": "resnext",
}


def family_of(program: str) -> str:
    """`resnet` for `seresnet50t`; for an unknown name, the letters it starts with."""
    name = program.lower()
    for word in _FAMILY_WORDS:
        if word in name:
            return _MERGED_FAMILIES.get(word, word)
    start = re.match(r"[a-z]+", name)
    return start.group() if start else name
