"""A disk of one's own, small enough to be filled."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def run_on_small_disk(code: str, folder: Path, size: str) -> None:
    """Run Python code with a tmpfs mounted on `folder`, its first argument; raises if it fails."""
    if not shutil.which("unshare"):
        pytest.skip("a small disk of one's own takes unshare, from util-linux")
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    private = ["unshare", "--map-root-user", "--mount"]  # seen by the child alone
    if subprocess.run([*private, *mount], capture_output=True).returncode:
        pytest.skip("this machine lets nobody mount a disk of their own")
    command = f'{" ".join(mount)} && exec "$@"'
    child = [sys.executable, "-c", code, str(folder)]
    subprocess.run([*private, "sh", "-c", command, "sh", *child], check=True, timeout=120)
