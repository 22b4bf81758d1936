"""Which machine should I train this on, how long will it take, what will it cost?

>>> import trainfare
>>> profile = trainfare.profile(["python", "train.py"])                       # doctest: +SKIP
>>> found = trainfare.recommend([profile.id], epochs=90)                      # doctest: +SKIP
>>> found.plan.chosen.seconds, found.plan.chosen.usd, found.plan.reasons      # doctest: +SKIP

`__init__.pyi` lists the public names: the questions (`recommend`, `estimate`, `predict`, …), the nouns, and the groups
`trainfare.queue`, `trainfare.profiles`, `trainfare.plans`, `trainfare.runs`, `trainfare.catalog`,
`trainfare.calibrations`.
"""

from trainfare._public import public_names

__version__ = "0.1.0"

__getattr__, __dir__ = public_names(__name__, __file__)
