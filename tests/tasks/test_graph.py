"""What holds while a GPU's work is captured; needs no GPU."""

import gc
from contextlib import nullcontext

import pytest
import torch

from hotlap.tasks.graph import capturing


@pytest.mark.parametrize("collects", [True, False])
def test_no_garbage_is_collected_during_a_capture(
    monkeypatch: pytest.MonkeyPatch, collects: bool
) -> None:
    monkeypatch.setattr(torch.cuda, "CUDAGraph", object)
    monkeypatch.setattr(torch.cuda, "graph", lambda graph: nullcontext(graph))
    if not collects:
        gc.disable()
    try:
        with pytest.raises(ValueError, match="within"), capturing() as graph:
            assert graph is not None and not gc.isenabled()
            raise ValueError("within")
        assert gc.isenabled() == collects
    finally:
        gc.enable()
