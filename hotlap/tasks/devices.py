"""Where things run, and whether they can be compiled there."""

import shutil

import torch


def choose_device(asked: str) -> tuple[str, str | None]:
    """The device to use, and a sentence where it is not the one asked for."""
    there = torch.cuda.is_available()
    if asked == "auto":
        return ("cuda" if there else "cpu"), None
    if asked.startswith("cuda") and not there:
        return "cpu", f"{asked} was asked for, but PyTorch sees no GPU here: running on the CPU"
    return asked, None


def has_compiler() -> bool:
    """Whether anything can be compiled here."""
    return any(shutil.which(name) for name in ("g++", "clang++", "c++"))
