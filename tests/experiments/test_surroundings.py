"""What is written down about the machine."""

import subprocess
import sys

import numpy as np

from crwn.experiments.surroundings import peak_memory


def test_peak_memory_is_the_process_s_own() -> None:
    large = np.ones(40 * 2**20, dtype=np.float64)  # 320 MB, held here while the other is started
    program = "from crwn.experiments.surroundings import peak_memory; print(peak_memory())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert 10**6 < int(done.stdout) < large.nbytes < peak_memory()
