"""The virtual environment .venv in the repository root with the packages of requirements.txt."""
import fcntl
import os
import pathlib
import subprocess
import sys
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
REQUIREMENTS = pathlib.Path(__file__).with_name("requirements.txt")
STAMP = VENV / "text-requirements.txt"  # the requirements that are installed


def install():
    """Creates the environment and installs the pinned packages, once; raises when that fails."""
    VENV.mkdir(exist_ok=True)
    with open(VENV / "text-requirements.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # ctest may start several users of this at once
        wanted = REQUIREMENTS.read_text()
        if STAMP.exists() and STAMP.read_text() == wanted:
            return
        if not (VENV / "bin/pip").exists():
            venv.create(VENV, with_pip=True)
        subprocess.run([VENV / "bin/pip", "install", "--quiet", "--disable-pip-version-check",
                        "--no-deps", "--require-hashes", "--only-binary", ":all:", "-r",
                        REQUIREMENTS], check=True)
        STAMP.write_text(wanted)


def reenter():
    """Continues the calling script inside the environment."""
    if pathlib.Path(sys.prefix).resolve() == VENV.resolve():
        return
    install()
    os.execv(VENV / "bin/python", [VENV / "bin/python", *sys.argv])
