"""The context of the container image: the Containerfile and exactly what it copies."""

import re
from pathlib import Path

from deploy.agent.contents import ROOT
from deploy.dist.archive import files_below

CONTAINERFILE = ROOT / "deploy" / "container" / "Containerfile"


def context_files() -> dict[str, Path]:
    """Return the files, by their paths in the repository, which the Containerfile uses too."""
    text = CONTAINERFILE.read_text("utf-8").replace("\\\n", " ")
    copied = [
        source
        for words in re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE)
        for source in words.split()[:-1]
    ]
    own = [CONTAINERFILE, Path(f"{CONTAINERFILE}.dockerignore")]
    paths = [*own, *(ROOT / source for source in copied)]
    return {name: file for path in paths for name, file in files_below(path, ROOT).items()}


def base_image() -> tuple[str, str]:
    """Return the name and the tag of the image that it begins with."""
    (name, tag) = re.findall(r"^ARG PYTHON=(\w+):(\S+)$", CONTAINERFILE.read_text("utf-8"), re.M)[0]
    return name, tag
