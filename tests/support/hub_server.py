"""A running server of a hub, and code that talks to it as a client of the Hub does."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from environments import run_python
from greffe.hub import LocalHub

TOKEN = "a-token-for-tests"


@dataclass
class Server:
    """A running server process."""

    address: str
    hub: LocalHub
    process: subprocess.Popen[str]
    python: Path
    home: Path

    def run_client(self, code: str, **environment: str) -> object:
        """Run code that uses the clients of the Hub, without Greffe, and read the JSON that it prints last."""
        settings = {"HF_ENDPOINT": self.address, "HF_HUB_OFFLINE": "0", "HF_TOKEN": TOKEN, "HF_HOME": str(self.home)}
        return run_python(self.python, "import json\n" + code, self.home, **{**settings, **environment})

    def peak_memory(self) -> int:
        """The most memory that the process ever had, in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) * 1024
