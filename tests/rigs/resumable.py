"""A training of 40 steps that saves every ten, and waits at step 23 to be interrupted, unless it goes on."""

RESUMABLE = """
import json, os, pathlib, sys, time
place = pathlib.Path("out/state.ckpt")
state = json.loads(place.read_text()) if "--resume" in sys.argv else {"step": 0}
resumed = state["step"]
print("from step", resumed, flush=True)
while state["step"] < 40:
    state["step"] += 1
    if state["step"] % 10 == 0:
        place.parent.mkdir(exist_ok=True)
        fresh = place.with_suffix(".new")
        fresh.write_text(json.dumps(state))
        os.utime(fresh, (time.time() - 10, time.time() - 10))
        fresh.replace(place)
    while state["step"] == 23 and not resumed:
        time.sleep(0.1)
pathlib.Path("weights.json").write_text(json.dumps({**state, "resumed": resumed}))
"""
