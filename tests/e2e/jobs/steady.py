"""Tells a step ten times a second until it is asked to stop, or the file that GO_ON_UNTIL names appears.

Beside it runs a child that nobody asks: whoever stops this job must end it too.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import trainmaster

subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
enough = Path(os.environ.get("GO_ON_UNTIL", "/nowhere"))
trainmaster.init()
step = 0
while not (trainmaster.should_stop() or enough.exists()):
    step += 1
    trainmaster.log(step, loss=1 / step)
    print(f"step {step}", flush=True)
    time.sleep(0.1)
