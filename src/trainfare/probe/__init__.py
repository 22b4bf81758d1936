"""Runs inside the user's process; standard library only, imports nothing of ours.

site/sitecustomize.py   how Python comes here: this folder is first on PYTHONPATH
boot.py                 reads what is wanted, waits for a framework to be imported
imports.py              calls back once a module has been imported
recorder.py             events as JSON lines, cheaply
loop.py                 iterations, waits, validations: what a training loop shows, whatever its framework
fast_path.py            ordinary iterations, noted cheaply and told to the loop together
clocks.py               when work was done, also on a device that runs behind
torch_hooks.py          where PyTorch is listened to; another framework is another file and a line in boot.py
torch_facts.py          what is read off its models, optimizers, schedulers and loaders
torch_schedule.py       the learning rate of epochs to come
torch_noise.py          gradient noise, if it is asked for
operations.py           kinds of operators, equal ones together, kernels out of a compiler's graph
torch_operations.py, jax_operations.py, tensorflow_operations.py, keras_operations.py   what one iteration computes
lightning_hooks.py, transformers_hooks.py, accelerate_hooks.py   what libraries on PyTorch know beside it
listening.py            what the listeners of all frameworks share: who speaks, what is written when
keras_hooks.py, keras2_hooks.py, tensorflow_hooks.py, jax_hooks.py   where those are listened to
pure.py                 which functions of the program may be called unasked
network.py              bytes that this process sent and received

The user's Python may be older than ours (3.9) and need not have `trainfare`: the files find each other through
`importlib`, and annotations are never evaluated. docs/profiling.md says what is recorded.
"""
