"""Doors to machines: this one (`local.py`), hosts of the user (`ssh.py`), and none at all (`fake.py`). `door.py` is
their contract, and `driver.py` drives the agent on the machines of all of them."""
