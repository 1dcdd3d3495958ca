"""Shared by the tests of runs: the disk is not waited for, which takes most of so short a run."""

import os

import pytest


@pytest.fixture(autouse=True)
def _unhurried_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda handle: None)
