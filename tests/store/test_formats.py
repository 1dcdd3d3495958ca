import math
from pathlib import Path
from typing import Any

import pytest
import torch

from hotlap.store.formats import KINDS, pack_tensors, tensor_parts, unpack_tensors
from hotlap.store.plain import DamagedFile, pack_json, unpack_json

HERE = Path("state.json")
DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32]
DTYPES += [torch.int16, torch.int8, torch.uint8, torch.bool, torch.complex64, torch.uint32]


def returned(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return unpack_tensors(pack_tensors(tensors), HERE)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3, 2), (2, 0, 5)])
def test_tensors_come_back_exactly(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    tensor = torch.arange(math.prod(shape)).reshape(shape).to(dtype)
    back = returned({"x": tensor, "y": tensor})
    for name in ("x", "y"):
        assert back[name].dtype == dtype
        assert back[name].shape == shape
        assert torch.equal(back[name], tensor)


@pytest.mark.parametrize("shape", [(), (0,), (3, 5)])
def test_a_file_in_parts_is_read_by_safetensors(shape: tuple[int, ...]) -> None:
    tensors = {
        name: torch.arange(math.prod(shape)).reshape(shape).to(dtype)
        for dtype, name in KINDS.items()
    }
    tensors["turned"] = torch.rand(4, 3).T
    back = unpack_tensors(b"".join(tensor_parts(tensors)), HERE)
    assert back.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert back[name].dtype == tensor.dtype and torch.equal(back[name], tensor)


def test_large_tensors_are_written_from_where_they_lie() -> None:
    frames = torch.zeros(10, 7, dtype=torch.uint8)
    _, part = tensor_parts({"frames": frames})
    frames += 3
    assert bytes(part) == b"\3" * 70


def test_tensors_that_share_or_skip_memory_come_back_apart() -> None:
    base = torch.arange(24.0).reshape(4, 6)
    picture = torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last)
    views = {"base": base, "turned": base.T, "part": base[1:3], "columns": base[:, ::2]}
    views |= {"repeated": base[:1].expand(5, 6), "parameter": torch.nn.Parameter(base)}
    views |= {"picture": picture, "conjugate": torch.tensor([1 + 2j]).conj()}
    back = returned(views)
    assert back.keys() == views.keys()
    assert all(torch.equal(back[name], view) for name, view in views.items())
    back["base"].zero_()
    assert torch.equal(back["turned"], base.T)
    assert not back["parameter"].requires_grad


def test_numbers_that_are_none_and_infinite_stay_in_tensors() -> None:
    tensor = torch.tensor([math.nan, math.inf, -math.inf, -0.0])
    assert torch.equal(returned({"x": tensor})["x"].view(torch.int32), tensor.view(torch.int32))


def test_json_comes_back_exactly_with_types() -> None:
    floats = [0.1 + 0.2, 1e-323, 1.7976931348623157e308, -0.0, 1 / 3, 2.0]
    value = {"floats": floats, "ints": [0, -1, 2**63, 10**40], "flag": True, "none": None}
    value |= {"ü \x00 \ud800": "\n\u2028", "nested": {"a": [{}, []]}}
    back = unpack_json(pack_json(value), HERE)
    assert back == value
    assert [repr(number) for number in back["floats"]] == [repr(number) for number in floats]
    assert {type(number) for number in back["ints"]} == {int}


@pytest.mark.parametrize(
    "value",
    [{"x": math.nan}, {"x": math.inf}, {"x": (1, 2)}, {1: 2}, {"x": torch.ones(1)}, {"x": {1, 2}}],
)
def test_what_json_would_change_is_refused(value: dict[Any, Any]) -> None:
    with pytest.raises(ValueError, match="use text as keys, lists for tuples"):
        pack_json(value)


@pytest.mark.parametrize("data", [b"", b"{", b"[1]", b"\xff", b'{"a": NaN}', b"[" * 100_000])
def test_json_that_is_none_is_damage(data: bytes) -> None:
    with pytest.raises(DamagedFile, match=r"state.json is damaged: expected .* found .* restore"):
        unpack_json(data, HERE)


def test_a_cut_safetensors_file_is_damage() -> None:
    data = pack_tensors({"x": torch.arange(5)})
    for length in range(len(data)):
        with pytest.raises(DamagedFile):
            unpack_tensors(data[:length], HERE)


def test_a_pickle_is_damage_and_is_not_run() -> None:
    with pytest.raises(DamagedFile):
        unpack_tensors(b"cos\nsystem\n(S'touch pwned'\ntR.", HERE)
