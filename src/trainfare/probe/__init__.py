"""Runs inside the user's process; standard library only, imports nothing of ours.

site/sitecustomize.py   how Python comes here: this folder is first on PYTHONPATH
boot.py                 reads what is wanted, waits for a framework to be imported
imports.py              calls back once a module has been imported
recorder.py             events as JSON lines, cheaply
loop.py                 iterations, waits, validations: what a training loop shows, whatever its framework
torch_hooks.py          where PyTorch is listened to; another framework is another file and a line in boot.py
torch_operations.py     what one iteration of PyTorch computes
lightning_hooks.py, transformers_hooks.py, accelerate_hooks.py   what libraries on PyTorch know beside it
listening.py            what the listeners of other frameworks share: who speaks, and a clock that waits
keras_hooks.py, tensorflow_hooks.py, jax_hooks.py   where those are listened to
network.py              bytes that this process sent and received

The user's Python may be older than ours (3.9) and need not have `trainfare`: the files find each other through
`importlib`, and annotations are never evaluated. docs/profiling.md says what is recorded.
"""
