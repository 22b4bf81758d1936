"""Code that runs inside the user's process. It uses the standard library only and imports nothing of trainfare.

site/sitecustomize.py   the entry point: its folder is first on PYTHONPATH, so Python imports it at start-up
boot.py                 reads the options from the environment and waits for a framework to be imported
import_hooks.py         calls back once a module has been imported
recorder.py             writes events as JSON lines
loop.py                 iterations, waits for data and validations of a training loop of any framework
fast_path.py            collects ordinary iterations cheaply and hands them to the loop in one call
clocks.py               the moments at which work was done, also on a device that runs asynchronously
stop.py                 decides when measuring ends, and ends the program
listener.py             base class of the listeners of all frameworks
loop_bounds.py          how far the program's own loops go
arguments.py            numbers in the program's arguments, configurations and variables
torch_hooks.py          the hooks into PyTorch; another framework is another file and a line in boot.py
torch_facts.py          facts read from PyTorch's models, optimizers, schedulers and loaders
torch_construction.py   the parameters and optimizers made before the first iteration
torch_inputs.py         the shape of what a PyTorch model is given
torch_attention.py      calls of attention as the one kernel that a GPU runs
torch_memory.py         the memory of an iteration by the lifetime of its tensors, and of all weights
torch_schedule.py       the learning rates of epochs to come
torch_gradient_noise.py, torch_operator_times.py   optional measurements after the others
operations.py           kinds of operators, a tally of equal operators, kernels of a compiler's graph
torch_operations.py, jax_operations.py, tensorflow_operations.py, keras_operations.py   the operators of one iteration
lightning_hooks.py, transformers_hooks.py, accelerate_hooks.py   facts that libraries on top of PyTorch add
keras_hooks.py, keras2_hooks.py, tensorflow_hooks.py, jax_hooks.py   the hooks into the other frameworks
keras_facts.py, jax_facts.py   facts read from the objects of Keras, and from arguments and results in JAX
pure.py                 tells which functions of the program are pure, so that calling them has no side effect
network.py              bytes that this process sent and received

The user's Python may be older than ours (3.9) and need not have `trainfare`: the files find each other through
`importlib`, and annotations are never evaluated. docs/profiling.md lists what is recorded.
"""
